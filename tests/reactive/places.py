"""Stores that can follow tables, each with a connection of the user's to the same database."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol, cast

from duly.stores.changes import Changes
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


class SqliteUser:
    """Statements on handles of their own."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=5, isolation_level=None, check_same_thread=False)

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
        self.user: User = SqliteUser(path)
        self.user.say("create table shop_settings (name text primary key)")
        self.store = cast(Changes, SqliteStore(f"sqlite:///{path}", clock=clock))


PLACES: Final[dict[str, Callable[[Path, VirtualClock], Place]]] = {"sqlite": SqlitePlace}
