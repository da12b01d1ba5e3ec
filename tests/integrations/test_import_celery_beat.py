"""`duly import celery-beat`, on tables that django-celery-beat's own migrations made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.servers import postgres_url

from duly import Duly
from duly.cli import main

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file with rows of every kind."""
    folder = tmp_path_factory.mktemp("beat")
    program(folder, {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "beat.db")})
    return f"sqlite:///{folder}/beat.db"


@pytest.fixture(scope="module")
def on_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The same at a server."""
    with fresh_database(f"beat_{os.getpid()}") as url:
        program(tmp_path_factory.mktemp("beat"), postgres_database(url))
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest) -> str:
    """A database with rows of every kind, made once."""
    made: str = request.getfixturevalue(f"on_{request.param}")
    return made


@contextmanager
def fresh_database(name: str) -> Generator[str]:
    """One of its own: django-celery-beat knows no schemas."""
    with psycopg.connect(postgres_url(), autocommit=True) as server:
        server.execute(f"create database {name}".encode())
        try:
            yield urlunsplit(urlsplit(postgres_url())._replace(path=f"/{name}"))
        finally:
            server.execute(f"drop database {name} with (force)".encode())


def postgres_database(url: str) -> dict[str, Any]:
    words = conninfo_to_dict(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": words["dbname"],
        "USER": words.get("user", ""),
        "PASSWORD": words.get("password", ""),
        "HOST": words.get("host", ""),
        "PORT": str(words.get("port", "")),
    }


def program(folder: Path, database: dict[str, Any], *words: str) -> str:
    (folder / "database.json").write_text(json.dumps(database))
    done = subprocess.run(
        [sys.executable, "-m", "tests.integrations.beat_program", str(folder / "database.json"), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def entries(url: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["import", "celery-beat", url, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["entries"]
    return {entry["name"]: entry for entry in found}


def test_a_crontab_keeps_its_zone_and_its_arguments(entries: dict[str, Any]) -> None:
    nightly = entries["nightly"]

    assert (nightly["kind"], nightly["cron"], nightly["timezone"]) == (
        "schedule",
        "30 2 * * *",
        "Europe/Paris",
    )
    assert (nightly["args"], nightly["kwargs"]) == ([1], {"deep": True})


def test_an_interval_keeps_its_bounds(entries: dict[str, Any]) -> None:
    assert entries["poll"]["every"] == "10m"
    assert (entries["days"]["every"], entries["days"]["start"]) == ("2d", "2125-01-02 03:04:05+00:00")
    assert entries["until then"]["end"] == "2125-01-02 03:04:05+00:00"


def test_ranges_over_the_end_are_written_out(entries: dict[str, Any]) -> None:
    assert entries["weekend"]["cron"] == "*/15 22,23,0,1,2 * * 5,6,0,1"


def test_queue_priority_and_expiry_are_told(entries: dict[str, Any]) -> None:
    assert entries["poll"]["queue"] == "io"
    assert [note.partition(" ")[0] for note in entries["poll"]["notes"]] == ["priority", "expires"]


def test_a_clocked_row_and_a_one_off_run_once(entries: dict[str, Any]) -> None:
    assert (entries["once"]["kind"], entries["once"]["run_after"]) == ("once", "2125-01-02 03:04:05+00:00")
    assert entries["once in the night"]["kind"] == "once"
    assert "T03:00" in entries["once in the night"]["run_after"].replace(" ", "T")


def test_a_disabled_row_stays_disabled(entries: dict[str, Any]) -> None:
    assert entries["off"]["kind"] == "disabled"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("both days", "wants both to match"), ("sun", "follows the sun"), ("nameless", "no path of a function")],
)
def test_what_cannot_be_said_is_left_for_a_person_with_the_reason(
    entries: dict[str, Any], name: str, reason: str
) -> None:
    assert entries[name]["kind"] == "by hand"
    assert reason in entries[name]["notes"][0]


def test_celerys_own_clean_up_is_left_out(entries: dict[str, Any]) -> None:
    assert "celery.backend_cleanup" not in entries


def test_the_code_for_an_application_runs_and_has_the_schedules(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["import", "celery-beat", url, "-a", "tests.integrations.beat_shop:app"]) == 0
    printed = capsys.readouterr()
    app = shop(monkeypatch)

    space: dict[str, Any] = {}
    exec(compile(printed.out, "generated", "exec"), space)  # noqa: S102 - that is what it is for
    space["enqueue_once"]()

    assert printed.err == "5 schedules, 2 single runs, 1 disabled, 3 left for a person\n"
    assert sorted(app.schedule_terms) == ["days", "nightly", "poll", "until then", "weekend"]
    assert app.schedule_terms["nightly"]["cron"] == "30 2 * * *"
    assert app.jobs.count(state="waiting") == 2
    assert "# 'off' was disabled:" in printed.out
    assert "# queue 'io': say @app.task(queue_name=\"io\")" in printed.out


def shop(monkeypatch: pytest.MonkeyPatch) -> Duly:
    """The module that the generated code imports its application from."""
    app = Duly("memory://")

    def report(number: int = 0, *, deep: bool = False) -> None: ...

    app.task(name="tests.integrations.beat_tasks.report")(report)
    module: Any = type(sys)("tests.integrations.beat_shop")
    module.app = app
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return app


def test_the_code_for_django_runs_and_has_the_schedules(tmp_path: Path) -> None:
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "beat.db")}
    program(tmp_path, database)
    words = ["-m", "duly", "import", "celery-beat", f"sqlite:///{tmp_path}/beat.db"]
    code = subprocess.run([sys.executable, *words], cwd=ROOT, env=os.environ, capture_output=True, check=True)
    (tmp_path / "schedules.py").write_bytes(code.stdout)

    terms = json.loads(program(tmp_path, database, str(tmp_path / "schedules.py")))

    assert sorted(terms) == ["days", "nightly", "poll", "until then", "weekend"]
    assert "queue_name='io'" in code.stdout.decode()


def test_a_database_without_the_tables_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.db").touch()

    assert main(["import", "celery-beat", f"sqlite:///{tmp_path}/empty.db"]) == 1
    assert "has no tables of django-celery-beat" in capsys.readouterr().err


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "celery-beat", f"sqlite:///{tmp_path}/none.db"]) == 3
    assert "cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()


def test_another_database_is_refused_with_a_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "celery-beat", "mysql://localhost/shop"]) == 2
    assert "dumpdata" in capsys.readouterr().err
