"""The transaction of a body on SQLite.

It takes the write lock at the body's first write and not before, so that a body may read, compute and call
others for as long as it likes without keeping anybody out.
"""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from duly.errors import TransactionEnded
from duly.ledger.database import InThread
from duly.stores.drive import Operation
from duly.stores.sqlite.address import Address
from duly.stores.sqlite.connection import perform
from duly.stores.sqlite.faults import explained
from duly.stores.sqlite.journal import has_reset_race
from duly.stores.sqlite.opening import sqlite_version

T = TypeVar("T")


class GuardedConnection(sqlite3.Connection):
    """A connection whose transaction is not the body's to end: effects and completion commit together."""

    def commit(self) -> NoReturn:
        _refuse("commit()")

    def rollback(self) -> NoReturn:
        _refuse("rollback()")

    def executescript(self, sql_script: str, /) -> NoReturn:
        _refuse("executescript(), which commits first")

    def __exit__(self, *_: object) -> NoReturn:
        _refuse("`with connection`, which commits")

    def close(self) -> NoReturn:
        _refuse("close()")


def _refuse(what: str) -> NoReturn:
    raise TransactionEnded(
        f"The guard ends this transaction, not {what}: return to commit, raise to roll back."
    )


class SqliteBodies:
    """Handles for bodies, one each."""

    def __init__(self, address: Address, patience: timedelta) -> None:
        self._address = address
        self._patience = patience

    def begin(self, limit: timedelta) -> SqliteTransaction:
        """Open a handle. A frozen process keeps the file to itself until it ends; nothing can limit that."""
        return SqliteTransaction(self._address, self._patience)

    async def abegin(self, limit: timedelta) -> InThread:
        """The same, for a body that blocks its loop for as long as its statements take."""
        return InThread(await asyncio.to_thread(self.begin, limit))


class SqliteTransaction:
    """One body's handle."""

    def __init__(self, address: Address, patience: timedelta) -> None:
        self._path = address.path
        self.connection: Any = sqlite3.connect(
            f"{Path(address.path).as_uri()}?mode=rw",
            uri=True,
            timeout=patience.total_seconds(),
            isolation_level="IMMEDIATE",
            check_same_thread=False,
            factory=GuardedConnection,
        )
        if has_reset_race(sqlite_version()):
            # A checkpoint of its own after the commit could meet SQLite's WAL-reset race (ADR 1).
            self.connection.execute("PRAGMA wal_autocheckpoint=0").close()

    def perform(self, operation: Operation[T]) -> T:
        """As a part of the transaction, or as its beginning."""
        cursor = self.connection.cursor()
        cursor.row_factory = None
        self.connection.text_factory = str
        try:
            return perform(cursor, operation, lambda text: text)
        except sqlite3.Error as error:
            raise explained(error, self._path, operation.name) from error
        finally:
            cursor.close()

    def commit(self) -> None:
        """Effects and completion, together. Closing undoes what could not be committed."""
        try:
            sqlite3.Connection.commit(self.connection)
        finally:
            sqlite3.Connection.close(self.connection)

    def rollback(self) -> None:
        """Neither."""
        try:
            sqlite3.Connection.rollback(self.connection)
        finally:
            sqlite3.Connection.close(self.connection)
