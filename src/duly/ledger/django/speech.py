"""Performing operations on a connection of Django, by the kind of database it leads to.

Inside an atomic block they are a part of it. Elsewhere each has a transaction of its own, and a connection
that was opened for it is closed after it: the threads that renew and sweep leave nothing behind.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any, Protocol, TypeVar

from duly.errors import DefinitionError
from duly.ledger.dialect import Dialect
from duly.ledger.sqlite.database import dialect_for, transact
from duly.stores.drive import Operation
from duly.stores.sqlite.connection import deadline, pause_briefly, perform
from duly.stores.sqlite.faults import explained, is_busy

T = TypeVar("T")


class Speech(Protocol):
    """How to talk to one kind of database through Django."""

    @property
    def dialect(self) -> Dialect: ...
    def alone(self, connection: Any, operation: Operation[T], patience: timedelta) -> T:
        """Perform in a short transaction of its own."""
        ...

    def inside(self, connection: Any, operation: Operation[T]) -> T:
        """Perform as a part of the transaction that is open, or that Django is about to begin."""
        ...

    def last(self, connection: Any, operation: Operation[T]) -> T:
        """Perform as the last words of a body, unless the body has ended its transaction by itself."""
        ...


def connection_of(alias: str) -> Any:
    """This thread's connection of Django."""
    return import_module("django.db").connections[alias]


def is_inside(connection: Any) -> bool:
    """Whether what is said now commits with something else."""
    return bool(connection.in_atomic_block or not connection.get_autocommit())


@contextmanager
def opened(connection: Any) -> Generator[Any, None, None]:
    """A connection that works; who opens it closes it. One in memory stays open, as Django sees to.

    One that is merely older than CONN_MAX_AGE is left alone: its owner may be reading rows from it.
    """
    if connection.errors_occurred and not connection.in_atomic_block:
        connection.close_if_unusable_or_obsolete()
    was_open = connection.connection is not None
    try:
        connection.ensure_connection()
        yield connection
    finally:
        if not was_open and not connection.in_atomic_block:
            connection.close()


def speech_for(alias: str, namespace: str) -> Speech:
    """By what Django says it is."""
    vendor = connection_of(alias).vendor
    if vendor == "sqlite":
        return SqliteSpeech(alias, namespace)
    if vendor == "postgresql":
        from duly.ledger.django.postgres import PostgresSpeech

        return PostgresSpeech(alias, namespace)
    raise DefinitionError(
        f"Django's database {alias!r} is of the kind {vendor!r}, which holds no receipts. "
        "Name one in SQLite or PostgreSQL."
    )


class SqliteSpeech:
    """Through Django's connection to a file, or to a test's database in memory."""

    def __init__(self, alias: str, namespace: str) -> None:
        self.dialect: Dialect = dialect_for(namespace)
        self._shown = f"Django's database {alias!r}"

    def alone(self, connection: Any, operation: Operation[T], patience: timedelta) -> T:
        """With the write lock from the start, waiting for it if need be."""
        is_wanted = deadline(patience)
        while True:
            try:
                return transact(connection.connection, operation, is_wanted)
            except sqlite3.Error as error:
                if not is_busy(error) or not is_wanted():
                    raise explained(error, self._shown, operation.name) from error
            pause_briefly()

    def inside(self, connection: Any, operation: Operation[T]) -> T:
        """In a savepoint. A transaction that Django has announced and not begun begins with the lock."""
        raw: sqlite3.Connection = connection.connection
        if not raw.in_transaction:
            raw.execute("BEGIN IMMEDIATE").close()
        return self._told(operation, lambda: _nested(raw, operation))

    def last(self, connection: Any, operation: Operation[T]) -> T:
        """The guard has begun by now."""
        return self.inside(connection, operation)

    def _told(self, operation: Operation[T], act: Callable[[], T]) -> T:
        try:
            return act()
        except sqlite3.Error as error:
            raise explained(error, self._shown, operation.name) from error


def _nested(raw: sqlite3.Connection, operation: Operation[T]) -> T:
    raw.execute("SAVEPOINT duly_call").close()
    try:
        value = perform(raw.cursor(), operation, lambda text: text)
    except BaseException:
        if raw.in_transaction:  # a full disk makes SQLite roll everything back by itself
            raw.execute("ROLLBACK TO duly_call").close()
            raw.execute("RELEASE duly_call").close()
        raise
    raw.execute("RELEASE duly_call").close()
    return value
