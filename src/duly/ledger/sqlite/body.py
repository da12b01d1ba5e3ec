"""The transaction of a body on SQLite.

It takes the write lock at the body's first write and not before, so that a body may read, compute and call
others for as long as it likes without keeping anybody out. The driver alone would not do: it takes neither
`WITH … INSERT` nor `CREATE TABLE` nor `SAVEPOINT` for a write, and each would be committed by itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, cast

from duly.errors import TransactionEnded
from duly.ledger.database import InThread
from duly.ledger.sqlite.words import may_write
from duly.ledger.threads import in_thread
from duly.stores.drive import Operation
from duly.stores.sqlite.address import Address
from duly.stores.sqlite.connection import perform
from duly.stores.sqlite.faults import code_of, explained
from duly.stores.sqlite.journal import has_reset_race
from duly.stores.sqlite.opening import sqlite_version

T = TypeVar("T")


class GuardedCursor(sqlite3.Cursor):
    """A cursor before whose first write the transaction begins, whatever that write looks like."""

    def execute(self, sql: str, parameters: Any = (), /) -> GuardedCursor:
        """As in sqlite3."""
        with cast(GuardedConnection, self.connection).entered(sql):
            super().execute(sql, parameters)
        return self

    def executemany(self, sql: str, seq_of_parameters: Iterable[Any], /) -> GuardedCursor:
        """As in sqlite3."""
        with cast(GuardedConnection, self.connection).entered(sql):
            super().executemany(sql, seq_of_parameters)
        return self

    def executescript(self, sql_script: str, /) -> NoReturn:
        _refuse("executescript(), which commits first")


class GuardedConnection(sqlite3.Connection):
    """A connection whose transaction is not the body's to end: effects and completion commit together."""

    has_begun: bool = False

    def cursor(self, factory: Any = GuardedCursor) -> Any:
        """As in sqlite3."""
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """As in sqlite3."""
        found: sqlite3.Cursor = self.cursor().execute(sql, parameters)
        return found

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> sqlite3.Cursor:
        """As in sqlite3."""
        found: sqlite3.Cursor = self.cursor().executemany(sql, parameters)
        return found

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

    @contextmanager
    def entered(self, sql: str) -> Generator[None, None, None]:
        """Around each statement of the body."""
        self.enter(sql)
        try:
            yield
        except sqlite3.DatabaseError as error:
            if code_of(error) == sqlite3.SQLITE_AUTH:
                raise TransactionEnded(_NOT_YOURS.format(what="COMMIT or ROLLBACK")) from error
            raise
        finally:
            self.has_begun = self.has_begun or self.in_transaction

    def enter(self, sql: str) -> None:
        """Begin if this statement may write; notice if SQLite undid everything by itself (a full disk)."""
        if self.in_transaction:
            return
        if self.has_begun:
            raise TransactionEnded(
                "SQLite has rolled back what the body wrote, and its error was caught. Let the error out."
            )
        if may_write(sql):
            super().execute("BEGIN IMMEDIATE").close()
            self.has_begun = True

    def guard(self) -> None:
        """From now on nothing said in SQL ends the transaction either."""
        self.set_authorizer(_decide)

    def end(self, *, keeps: bool) -> None:
        """The guard's own word. Closing undoes what could not be committed."""
        try:
            self.set_authorizer(None)
            super().commit() if keeps else super().rollback()
        finally:
            super().close()


_NOT_YOURS: Final = "The guard ends this transaction, not {what}: return to commit, raise to roll back."


def _refuse(what: str) -> NoReturn:
    raise TransactionEnded(_NOT_YOURS.format(what=what))


def _decide(action: int, word: str | None, *_: str | None) -> int:
    is_end = action == sqlite3.SQLITE_TRANSACTION and word != "BEGIN"
    return sqlite3.SQLITE_DENY if is_end else sqlite3.SQLITE_OK


class SqliteBodies:
    """Handles for bodies, one each."""

    is_ambient = False

    def __init__(self, address: Address, patience: timedelta) -> None:
        self._address = address
        self._patience = patience

    def begin(self, limit: timedelta) -> SqliteTransaction:
        """Open a handle. A frozen process keeps the file to itself until it ends; nothing can limit that."""
        return SqliteTransaction(self._address, self._patience)

    async def abegin(self, limit: timedelta) -> InThread:
        """The same, for a body that blocks its loop for as long as its statements take."""
        return InThread(await in_thread(lambda: self.begin(limit), lambda made: made.rollback()))


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
        self.connection.guard()
        if has_reset_race(sqlite_version()):
            # A checkpoint of its own after the commit could meet SQLite's WAL-reset race (ADR 1).
            self.connection.execute("PRAGMA wal_autocheckpoint=0").close()

    def perform(self, operation: Operation[T]) -> T:
        """As a part of the transaction, or as its beginning."""
        self.connection.text_factory = str
        cursor = self.connection.cursor()
        cursor.row_factory = None
        try:
            return perform(cursor, operation, lambda text: text)
        except sqlite3.Error as error:
            raise explained(error, self._path, operation.name) from error
        finally:
            cursor.close()

    def commit(self) -> None:
        """Effects and completion, together."""
        self.connection.end(keeps=True)

    def rollback(self) -> None:
        """Neither."""
        self.connection.end(keeps=False)
