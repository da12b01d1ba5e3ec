"""Handles on SQLite that a body may work on but not end.

A handle begins its transaction by itself at the body's first statement. That nobody but us ends it SQLite
itself sees to: its authorizer refuses COMMIT and ROLLBACK, whatever way they come.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterable
from typing import Any, Final, Protocol, cast

from duly.errors import TransactionEnded
from duly.stores.sqlite.faults import code_of
from duly.transactions.words import NOT_YOURS

FORBIDDEN: Final = {sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH}


class Begins(Protocol):
    """The transaction a handle is lent for."""

    def enter(self) -> None:
        """Before each statement: begin with the first."""
        ...


class BodyCursor(sqlite3.Cursor):
    """A cursor whose first statement begins the transaction."""

    def execute(self, sql: str, parameters: Any = (), /) -> BodyCursor:
        """As in sqlite3."""
        _body_connection(self).enter()
        try:
            super().execute(sql, parameters)
        except sqlite3.DatabaseError as error:
            tell_forbidden(error)
            raise
        return self

    def executemany(self, sql: str, seq_of_parameters: Iterable[Any], /) -> BodyCursor:
        """As in sqlite3."""
        _body_connection(self).enter()
        try:
            super().executemany(sql, seq_of_parameters)
        except sqlite3.DatabaseError as error:
            tell_forbidden(error)
            raise
        return self

    def executescript(self, sql_script: str, /) -> BodyCursor:
        """Refused: it commits first."""
        raise TransactionEnded(NOT_YOURS.format(word="executescript(), which commits first,"))


def tell_forbidden(error: sqlite3.DatabaseError) -> None:
    """Raise what a body should read where SQLite only says that something was not authorized."""
    if code_of(error) == sqlite3.SQLITE_AUTH:
        raise TransactionEnded(NOT_YOURS.format(word="COMMIT, ROLLBACK or ATTACH")) from error


def _body_connection(cursor: sqlite3.Cursor) -> BodyConnection:
    return cast(BodyConnection, cursor.connection)


class BodyConnection(sqlite3.Connection):
    """What `run.connection` is: a sqlite3 connection that begins by itself and is not the body's to end."""

    transaction: Begins | None = None

    def cursor(self, factory: Any = BodyCursor) -> Any:
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

    def executescript(self, sql_script: str, /) -> sqlite3.Cursor:
        """Refused: it commits first."""
        found: sqlite3.Cursor = self.cursor().executescript(sql_script)
        return found

    def blobopen(self, *place: Any, **options: Any) -> sqlite3.Blob:
        """As in sqlite3; what is written to it by itself would be committed by itself."""
        self.enter()
        return super().blobopen(*place, **options)

    def commit(self) -> None:
        """Refused: Duly commits when the body has returned."""
        raise TransactionEnded(NOT_YOURS.format(word="connection.commit()"))

    def rollback(self) -> None:
        """Refused: raise an exception to roll back, or use a SAVEPOINT for a part."""
        raise TransactionEnded(NOT_YOURS.format(word="connection.rollback()"))

    def close(self) -> None:
        """Refused while it is lent: it goes back to where it came from."""
        if self.transaction is not None:
            raise TransactionEnded(NOT_YOURS.format(word="connection.close()"))
        super().close()

    def __enter__(self) -> BodyConnection:
        """Refused: `with connection:` commits at its end."""
        raise TransactionEnded(NOT_YOURS.format(word="`with connection:`, which commits at its end,"))

    def enter(self) -> None:
        """Before each statement of the body."""
        if self.transaction is not None:
            self.transaction.enter()

    # what we say, past everything above

    def ours(self) -> sqlite3.Cursor:
        """A cursor that knows nothing of bodies."""
        cursor = super().cursor()
        cursor.row_factory = None
        return cursor

    def say(self, text: str) -> None:
        """Begin or end."""
        self.is_ending = True
        try:
            self.ours().execute(text)
        finally:
            self.is_ending = False

    is_ending: bool = False

    def shut(self) -> None:
        """Really close."""
        self.transaction = None
        super().close()


def guard(connection: BodyConnection) -> None:
    """Have SQLite itself refuse what only we may say."""
    me = weakref.ref(connection)

    def decide(action: int, *_: str | None) -> int:
        guarded = me()
        if action in FORBIDDEN and guarded is not None and not guarded.is_ending:
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    connection.set_authorizer(decide)
