"""Short operations on the user's file, each on a handle of its own that is closed at once.

No handle is kept: a process that forks (as RQ's worker does for every job) must not have one open. The
file's journal stays as its application chose it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any, Final, TypeVar

from duly.ledger.database import Bodies
from duly.ledger.dialect import Dialect, SqliteDialect
from duly.stores.drive import Operation
from duly.stores.sqlite.address import Address, Mode, check_namespace
from duly.stores.sqlite.caller import CallersConnection
from duly.stores.sqlite.connection import (
    begin_immediate,
    connect,
    deadline,
    pause_briefly,
    perform,
    spelling,
)
from duly.stores.sqlite.faults import check_build, check_place, explained, is_busy
from duly.stores.sqlite.journal import Checkpointer, choose_journal, mode_of
from duly.stores.sqlite.opening import sqlite_version, warn_once

T = TypeVar("T")

LOG_BEFORE_TENDING: Final = 4 << 20


def dialect_for(namespace: str) -> SqliteDialect:
    """The names of the tables of a namespace: `duly` has `duly_ledger_receipt`."""
    whole = f"{check_namespace(namespace)}_ledger"
    return SqliteDialect(whole, spelling(whole))


class SqliteDatabase:
    """A file."""

    def __init__(self, address: Address, dialect: SqliteDialect, bodies: Bodies, patience: timedelta) -> None:
        self._address = address
        self._patience = patience
        self.dialect: Dialect = dialect
        self.bodies = bodies

    @property
    def shown(self) -> str:
        return self._address.path

    def prepare(self) -> None:
        """Make the file if need be, and say what is wrong with it."""
        check_build(sqlite_version())
        check_place(self._address.path)
        mode = self._patiently("open", deadline(self._patience), self._mode)
        if mode is Mode.WAL:
            journal = choose_journal(sqlite_version(), owns_file=False, wanted=None)
            warn_once(journal.warning(self._address.path, mode))

    def _mode(self) -> Mode:
        with closing(connect(self._address, creates=True)) as connection:
            return mode_of(connection)

    def run(self, operation: Operation[T], patience: timedelta | None = None) -> T:
        """Perform in a short transaction of its own, waiting for the file's one writer if need be."""
        is_wanted = deadline(self._patience if patience is None else patience)

        def once() -> T:
            with closing(connect(self._address)) as connection:
                return transact(connection, operation, is_wanted)

        return self._patiently(operation.name, is_wanted, once)

    def _patiently(self, doing: str, is_wanted: Callable[[], bool], act: Callable[[], T]) -> T:
        """Opening is tried again too: it reads, and a commit of somebody else can keep it from that."""
        while True:
            try:
                return act()
            except sqlite3.Error as error:
                if not is_busy(error) or not is_wanted():
                    raise explained(error, self._address.path, doing) from error
            pause_briefly()

    def run_on(self, connection: Any, operation: Operation[T]) -> T:
        """Perform inside the caller's transaction."""
        return CallersConnection(connection, self._address.path, _as_it_is, mute=False).run(operation)

    async def arun_on(self, connection: Any, operation: Operation[T]) -> T:
        """The same, in the loop's own thread."""
        return self.run_on(connection, operation)

    def once_committed(self, act: Callable[[], object]) -> None:
        """What ran in a transaction of its own is committed."""
        act()

    def tend(self) -> None:
        """Write a long log back. Our handles never do so beside a commit, see ADR 1."""
        if os.path.exists(f"{self._address.path}-wal"):
            self._patiently("write the log back", deadline(self._patience), self._write_back)

    def _write_back(self) -> None:
        with closing(connect(self._address)) as writer, closing(connect(self._address)) as second:
            checkpointer = Checkpointer(writer, second, self._address.path)
            if checkpointer.log_size() > LOG_BEFORE_TENDING:
                checkpointer.write_back()

    def close(self) -> None:
        """Nothing is open between two operations."""


def transact(connection: sqlite3.Connection, operation: Operation[T], is_wanted: Callable[[], bool]) -> T:
    """A transaction on a handle that is in none, with the write lock from its start if it writes."""
    if operation.writes:
        begin_immediate(connection, is_wanted)
    else:
        connection.execute("BEGIN")
    try:
        value = perform(connection.cursor(), operation, _as_it_is)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return value


def _as_it_is(text: str) -> str:
    """Statements come spelled already."""
    return text
