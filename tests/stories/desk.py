"""A table of orders beside the jobs, and the user who writes to it: what stories of reactive tasks share."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from typing import Any, Final

import psycopg

from duly import Change, Duly

COLUMNS: Final = "id integer primary key, status text, total integer, note text"


class Desk:
    """The user's side: SQL on connections of their own, each statement a transaction."""

    def __init__(self, url: str, table: str, columns: str = COLUMNS) -> None:
        self.url = url
        self.table = table
        self.is_sqlite = url.startswith("sqlite")
        self.say(f"create table {table} ({columns})")

    @contextmanager
    def connect(self) -> Generator[Any, None, None]:
        """A connection that commits each statement."""
        if self.is_sqlite:
            path = self.url.removeprefix("sqlite:///")
            with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as connection:
                connection.execute("pragma wal_autocheckpoint = 0")
                yield connection
        else:
            with psycopg.connect(self.url, autocommit=True) as connection:
                yield connection

    def say(self, text: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def transaction(self) -> Generator[Callable[[str], Any], None, None]:
        """Statements that commit together at the end of the block."""
        with self.connect() as connection:
            connection.execute("begin immediate" if self.is_sqlite else "begin")
            try:
                yield connection.execute
            except BaseException:
                connection.execute("rollback")
                raise
            connection.execute("commit")

    def order(self, number: int, status: str = "paid", total: int = 10) -> None:
        self.say(f"insert into {self.table} (id, status, total) values ({number}, '{status}', {total})")

    def change(self, what: str, number: int | None = None) -> None:
        where = "" if number is None else f" where id = {number}"
        self.say(f"update {self.table} set {what}{where}")

    def delete(self, number: int) -> None:
        self.say(f"delete from {self.table} where id = {number}")

    @property
    def mark(self) -> str:
        """How a parameter is written."""
        return "?" if self.is_sqlite else "%s"

    def drop(self) -> None:
        if not self.is_sqlite:
            self.say(f"drop table if exists {self.table}")


class Told(list[tuple[Any, dict[str, Any]]]):
    """What bodies were told: key and row, in the order of their runs."""

    def note(self, change: Change) -> None:
        """A body that reads its row and notes it."""
        row = change.document(["status", "total"])
        self.append((change.key, dict(row)))

    @property
    def keys(self) -> list[Any]:
        return sorted(key for key, _ in self)


def paid(app: Duly, desk: Desk, **options: Any) -> Told:
    """A task that notes paid orders; answers its notes."""
    told = Told()
    given: dict[str, Any] = {
        "table": desk.table,
        "where": "status = 'paid'",
        "watch": ["status", "total"],
        "name": "receipt",
        **options,
    }

    @app.react(**given)
    def receipt(change: Change) -> None:
        told.note(change)

    return told
