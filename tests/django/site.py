"""The tests' Django project: set up once in this process, or run in processes of its own.

A process can have one set of settings. Tests that need others use `override_settings`, or `Site`.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from tests.servers import postgres_url

ROOT: Final = Path(__file__).parents[2]
SETTINGS: Final = "tests.django.project.settings"


OURS: Final[dict[str, Any]] = {"default": {"BACKEND": "duly.django.DulyBackend", "QUEUES": []}}
"""TASKS with one backend of ours, for whatever queue."""


def new_database(name: str) -> str:
    """An empty database at the tests' server, for this process alone."""
    quoted = sql.Identifier(f"{name}_{os.getpid()}")
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(sql.SQL("drop database if exists {} with (force)").format(quoted))
        connection.execute(sql.SQL("create database {}").format(quoted))
    return f"{name}_{os.getpid()}"


@cache
def set_up() -> None:
    """Have the project in this process, on SQLite files of its own, migrated."""
    folder = tempfile.mkdtemp(prefix="duly-site-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["DULY_SITE_FOLDER"] = folder
    os.environ["DJANGO_SETTINGS_MODULE"] = SETTINGS
    django: Any = importlib.import_module("django")
    django.setup()
    for alias in ("default", "other"):
        call("migrate", database=alias, verbosity=0)


@cache
def add_postgres() -> str:
    """A third database and a backend in it, both called "postgres"; the name of the database."""
    from django.conf import settings
    from django.db import connections

    name = new_database("site")
    handler: Any = connections
    handler.settings["postgres"] = {**postgres_database(postgres_url()), "NAME": name}
    handler.configure_settings(handler.settings)
    settings.TASKS["postgres"] = {**OURS["default"], "OPTIONS": {"database": "postgres"}}
    call("migrate", database="postgres", verbosity=0)
    return name


def django_version() -> tuple[int, int]:
    """Which Django this is."""
    django: Any = importlib.import_module("django")
    return (django.VERSION[0], django.VERSION[1])


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
            cwd=ROOT, env=self.variables, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def started(self, *words: str) -> Generator[subprocess.Popen[str]]:
        """A management command that goes on; what it started goes with it at the end of the block."""
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.django.project.manage", *words],
            cwd=ROOT, env=self.variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def shell(self, code: str) -> str:
        """Python in the project; what it printed."""
        return self.manage("shell", "-v", "0", "-c", code)
