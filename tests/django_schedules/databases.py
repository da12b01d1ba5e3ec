"""A PostgreSQL database beside the SQLite files of the tests' project, under the alias "pg".

Made when a test first asks for it: one per process, because the schemas in it bear fixed names.
"""

from __future__ import annotations

import atexit
import importlib
import os
from functools import cache
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
from tests.django.site import call, postgres_database
from tests.servers import postgres_url

connections: Any = importlib.import_module("django.db").connections


@cache
def with_postgres() -> str:
    """The alias, migrated."""
    name = f"site_{os.getpid()}"
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"drop database if exists {name}".encode())
        connection.execute(f"create database {name}".encode())
    atexit.register(forget, os.getpid())
    words = {**postgres_database(postgres_url()), "NAME": name}
    known = {alias: dict(given) for alias, given in connections.settings.items()}
    connections.settings["pg"] = connections.configure_settings({**known, "pg": words})["pg"]
    call("migrate", database="pg", verbosity=0)
    return "pg"


def forget(pid: int) -> None:
    """A connection left open would keep the server from stopping in good order."""
    if pid == os.getpid():
        connections["pg"].close()


def url_of(name: str) -> str:
    """The server's URL with another database."""
    parts = urlsplit(postgres_url())
    return urlunsplit(parts._replace(path=f"/{name}"))
