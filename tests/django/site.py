"""The tests' Django project: set up once in this process, or run in processes of its own.

A process can have one set of settings. Tests that need others use `override_settings`, or `Site`.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from psycopg.conninfo import conninfo_to_dict

ROOT: Final = Path(__file__).parents[2]
SETTINGS: Final = "tests.django.project.settings"


@cache
def set_up() -> None:
    """Have the project in this process, on SQLite files of its own, migrated."""
    folder = tempfile.mkdtemp(prefix="duly-site-")
    os.environ["DULY_SITE_FOLDER"] = folder
    os.environ["DJANGO_SETTINGS_MODULE"] = SETTINGS
    django: Any = importlib.import_module("django")
    django.setup()
    for alias in ("default", "other"):
        call("migrate", database=alias, verbosity=0)


def call(command: str, *words: str, **options: Any) -> Any:
    """A management command in this process."""
    management: Any = importlib.import_module("django.core.management")
    return management.call_command(command, *words, **options)


def postgres_database(url: str) -> dict[str, Any]:
    """A database of Django's settings, from a URL."""
    words = conninfo_to_dict(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": words.get("dbname", "postgres"),
        "USER": words.get("user", ""),
        "PASSWORD": words.get("password", ""),
        "HOST": words.get("host", ""),
        "PORT": str(words.get("port", "")),
    }


@dataclass
class Site:
    """The project in processes of their own, with settings of their own."""

    folder: Path
    tasks: dict[str, Any] | None = None
    databases: dict[str, Any] | None = None
    duly: dict[str, Any] | None = None
    environment: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def variables(self) -> dict[str, str]:
        """The environment of such a process."""
        given = {"TASKS": self.tasks, "DATABASES": self.databases, "DULY": self.duly}
        settings = {f"DULY_SITE_{name}": json.dumps(value) for name, value in given.items() if value}
        return {
            **os.environ,
            "DULY_SITE_FOLDER": str(self.folder),
            "DJANGO_SETTINGS_MODULE": SETTINGS,
            **settings,
            **self.environment,
        }

    def manage(self, *words: str) -> str:
        """A management command, to its end; what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "tests.django.project.manage", *words],
            cwd=ROOT, env=self.variables, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A management command that goes on."""
        return subprocess.Popen(
            [sys.executable, "-m", "tests.django.project.manage", *words],
            cwd=ROOT, env=self.variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def shell(self, code: str) -> str:
        """Python in the project; what it printed."""
        return self.manage("shell", "-v", "0", "-c", code)
