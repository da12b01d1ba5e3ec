"""What loading Duly loads is bounded: start-up time and memory go by the modules, and modules can be counted.

Each case runs in an interpreter of its own, since this one has loaded everything already.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

NEVER: Final = frozenset(
    {
        "multiprocessing",
        "concurrent.futures.process",
        "http.client",
        "http.server",
        "email",
        "importlib.metadata",
        "xmlrpc",
        "unittest",
        "pickle",
        "opentelemetry",
        "prometheus_client",
        "django",
        "celery",
        "jinja2",
        "starlette",
        "psycopg",
        "asyncpg",
        "redis",
        "sqlalchemy",
    }
)
"""Extras, and parts of the standard library that nothing on the way to a first job needs."""

UNASKED: Final = frozenset(
    {"duly.worker", "duly.executors", "duly.dashboard", "duly.cli", "duly.django", "duly.testing"}
)
"""What whoever only asks for work does without."""


def loaded_by(program: str, folder: Path) -> set[str]:
    """In a folder without a project file, which would have to be read."""
    found = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"],
        check=True, capture_output=True, text=True, timeout=60, cwd=folder,
    )  # fmt: skip
    return set(found.stdout.split())


def test_importing_the_package_loads_next_to_nothing(tmp_path: Path) -> None:
    loaded = loaded_by("import duly", tmp_path)

    assert {name for name in loaded if name.startswith("duly")} == {"duly", "duly.lazily", "duly.version"}
    assert not loaded & (NEVER | {"asyncio", "sqlite3", "logging", "dataclasses", "inspect"})


def test_an_application_that_asks_for_work_loads_no_worker(tmp_path: Path) -> None:
    loaded = loaded_by("from duly import Duly\napp = Duly('memory://')\napp.task(print)", tmp_path)

    assert not loaded & (NEVER | UNASKED | {"sqlite3", "ctypes", "tomllib", "difflib", "duly.stores.sqlite"})


def test_a_sqlite_store_loads_no_other_store_and_no_worker(tmp_path: Path) -> None:
    program = f"from duly import Duly\nDuly('sqlite:///{tmp_path}/jobs.db').open()"

    loaded = loaded_by(program, tmp_path)

    assert "sqlite3" in loaded
    assert not loaded & (
        NEVER | UNASKED | {"duly.stores.redis", "duly.stores.postgres", "duly.stores.memory"}
    )


def test_a_worker_on_sqlite_loads_none_of_the_extras(tmp_path: Path) -> None:
    program = f"from duly import Duly\nDuly('sqlite:///{tmp_path}/jobs.db').run(burst=True)"

    loaded = loaded_by(program, tmp_path)

    assert "duly.worker" in loaded
    assert "duly.metrics.otel" not in loaded
    assert not loaded & (NEVER | (UNASKED - {"duly.worker", "duly.executors"}))


def test_a_worker_on_postgres_loads_no_other_store_and_nothing_that_only_other_commands_need(
    tmp_path: Path,
) -> None:
    loaded = loaded_by("import duly.cli.worker, duly.worker, duly.stores.postgres", tmp_path)

    assert "psycopg" in loaded
    assert not loaded & {"sqlite3", "duly.stores.sqlite", "duly.stores.redis", "http.client", "difflib"}
