"""Performing an operation on a connection that belongs to somebody else.

The job becomes visible if and only if the caller's transaction commits, so we never commit or roll back
what is theirs: our statements stand inside a savepoint.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, TypeGuard, TypeVar

from duly.errors import WrongConnection
from duly.stores.callers import described, innermost, is_async
from duly.stores.drive import Operation
from duly.stores.sqlite.connection import Spell, perform
from duly.stores.sqlite.faults import code_of, explained, is_busy, unavailable

T = TypeVar("T")

_LEGACY: Final = -1
"""Before Python 3.12, and by default since, `isolation_level` alone says who begins transactions."""


def raw_connection(given: Any) -> sqlite3.Connection:
    """The sqlite3 connection inside what a caller has in hand: Django's, SQLAlchemy's, or that itself."""
    raw = None if is_async(given) else innermost(given, _is_raw)
    if raw is None:
        raise WrongConnection(
            f"{described(given)} holds no connection of the standard sqlite3 module in this thread. Pass "
            "one of those, Django's connection, or SQLAlchemy's Session or Connection with that driver: "
            "aiosqlite keeps its connection in a thread of its own, and two copies of the SQLite library "
            "must not share a file in one process."
        )
    return raw


def _is_raw(found: Any) -> TypeGuard[sqlite3.Connection]:
    return isinstance(found, sqlite3.Connection)


class CallersConnection:
    """A caller's connection, found to lead to the store's file."""

    def __init__(self, given: Any, path: str, spell: Spell, *, mute: bool) -> None:
        self._connection = raw_connection(given)
        self._path = path
        self._spell = spell
        with self._told():
            self._check_file()
            if mute:
                # A checkpoint of its own after the commit could meet SQLite's WAL-reset race (ADR 0001).
                self._connection.execute("PRAGMA wal_autocheckpoint=0").close()

    def run(self, operation: Operation[T]) -> T:
        """Perform as a part of whatever transaction the caller is in, or as its beginning."""
        with self._told(operation.name), self._plain_text():
            if not operation.writes:
                return self._perform(operation)
            if self._connection.in_transaction:
                return self._inside(operation)
            return self._as_beginning(operation)

    @property
    def has_committed(self) -> bool:
        """Whether nothing is left open: what was written is there for others to see."""
        return not self._connection.in_transaction

    def _inside(self, operation: Operation[T]) -> T:
        self._execute("SAVEPOINT duly_call")
        try:
            result = self._perform(operation)
        except BaseException:
            if self._connection.in_transaction:  # a full disk makes SQLite roll everything back by itself
                self._execute("ROLLBACK TO duly_call")
                self._execute("RELEASE duly_call")
            raise
        self._execute("RELEASE duly_call")
        return result

    def _as_beginning(self, operation: Operation[T]) -> T:
        """Begin as the driver would, only with the write lock; in autocommit mode also end it."""
        self._execute("BEGIN IMMEDIATE")
        try:
            result = self._perform(operation)
            if self._commits_by_itself():
                self._execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._execute("ROLLBACK")
            raise
        return result

    def _commits_by_itself(self) -> bool:
        autocommit = getattr(self._connection, "autocommit", _LEGACY)
        return autocommit is True or (autocommit == _LEGACY and self._connection.isolation_level is None)

    def _perform(self, operation: Operation[T]) -> T:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        try:
            return perform(cursor, operation, self._spell)
        finally:
            cursor.close()

    def _execute(self, text: str) -> None:
        self._connection.execute(text).close()

    def _check_file(self) -> None:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        files = [
            _text(file) for _, name, file in cursor.execute("PRAGMA database_list") if _text(name) == "main"
        ]
        found = files[0] if files else ""
        if not found or not os.path.exists(self._path) or not os.path.samefile(found, self._path):
            raise WrongConnection(
                f"This connection is to {found or 'a database in memory'}, but the store is {self._path}. "
                "Pass a connection to the store's file, or leave out connection= for a separate transaction."
            )

    @contextmanager
    def _plain_text(self) -> Generator[None, None, None]:
        theirs = self._connection.text_factory
        self._connection.text_factory = str
        try:
            yield
        finally:
            self._connection.text_factory = theirs

    @contextmanager
    def _told(self, doing: str = "use a connection") -> Generator[None, None, None]:
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise WrongConnection(f"This connection cannot be used here: {error}") from error
        except sqlite3.Error as error:
            if is_busy(error):
                raise unavailable(error, self._busy_sentence(error)) from error
            if code_of(error) == sqlite3.SQLITE_READONLY:
                raise WrongConnection(
                    "This connection may only read (mode=ro, or PRAGMA query_only), and a job must be "
                    "written. Pass one that may write."
                ) from error
            raise explained(error, self._path, doing) from error

    def _busy_sentence(self, error: sqlite3.Error) -> str:
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY_SNAPSHOT:
            reason = "another connection wrote after this transaction had begun by reading"
        else:
            reason = "another connection is writing"
        return (
            f"{self._path} is locked: {reason}. Begin the transaction with BEGIN IMMEDIATE "
            "(Django: OPTIONS = {'transaction_mode': 'IMMEDIATE'}), which waits for its turn."
        )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
