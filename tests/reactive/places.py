"""Stores that can follow tables, each with a connection of the user's to the same database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol, cast

import psycopg
from tests.servers import postgres_schema, postgres_url

from duly.stores.changes import Changes
from duly.stores.postgres import PostgresStore
from duly.stores.sqlite import SqliteStore
from duly.testing import VirtualClock


class User(Protocol):
    """The user's application: SQL on its own connections. Every `say` commits by itself."""

    def say(self, text: str) -> list[tuple[Any, ...]]: ...
    def transaction(self) -> Any:
        """A context manager whose value says SQL that commits at its end."""
        ...


class Place(Protocol):
    """A store and the user beside it."""

    name: str
    store: Changes
    user: User
    schema: str
    url: str


class SqliteUser:
    """Statements on handles of their own."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=60, isolation_level=None, check_same_thread=False)

    def say(self, text: str) -> list[tuple[Any, ...]]:
        with closing(self._open()) as connection:
            return connection.execute(text).fetchall()

    @contextmanager
    def transaction(self) -> Generator[Callable[[str], list[tuple[Any, ...]]], None, None]:
        with closing(self._open()) as connection:
            connection.execute("begin immediate")
            try:
                yield lambda text: connection.execute(text).fetchall()
            except BaseException:
                connection.execute("rollback")
                raise
            connection.execute("commit")


class SqlitePlace:
    """Both in one file."""

    name = "sqlite"
    schema = "main"

    def __init__(self, folder: Path, clock: VirtualClock) -> None:
        path = folder / "shop.db"
        self.url = f"sqlite:///{path}"
        self.user: User = SqliteUser(path)
        self.user.say("create table shop_settings (name text primary key)")
        self.store = cast(Changes, SqliteStore(self.url, clock=clock))


class PostgresUser:
    """Statements on connections of their own, in a schema of the user's."""

    def __init__(self, url: str) -> None:
        self._url = url

    def say(self, text: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._url, autocommit=True) as connection:
            return _told(connection, text)

    @contextmanager
    def transaction(self) -> Generator[Callable[[str], list[tuple[Any, ...]]], None, None]:
        with psycopg.connect(self._url) as connection:
            yield lambda text: _told(connection, text)


def _told(connection: psycopg.Connection[Any], text: str) -> list[tuple[Any, ...]]:
    cursor = connection.execute(text.encode())
    return cursor.fetchall() if cursor.description else []


class PostgresPlace:
    """Both in one database, each in a schema of its own."""

    name = "postgres"

    def __init__(self, folder: Path, clock: VirtualClock) -> None:
        self.schema = postgres_schema(folder)
        theirs = f"shop_{self.schema}"
        self.url = f"{postgres_url()}&options=-csearch_path%3D{theirs}"
        with psycopg.connect(postgres_url(), autocommit=True) as connection:
            connection.execute(f"drop schema if exists {theirs} cascade".encode())
            connection.execute(f"create schema {theirs}".encode())
        self.user: User = PostgresUser(self.url)
        self.store = cast(Changes, PostgresStore(self.url, clock=clock, namespace=self.schema))


PLACES: Final[dict[str, Callable[[Path, VirtualClock], Place]]] = {
    "sqlite": SqlitePlace,
    "postgres": PostgresPlace,
}
