"""Short operations on the user's database: connecting, trying again, surviving restarts and forks.

No session state is kept between transactions, so a pooler may stand in between.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any, Final, Protocol, TypeVar

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from duly.errors import WrongConnection
from duly.ids import spread
from duly.ledger.database import Bodies
from duly.ledger.dialect import Dialect, PostgresDialect
from duly.ledger.postgres.talk import adrive, aperform, drive, perform
from duly.stores.callers import connected, is_async, must_be_awaited
from duly.stores.drive import Operation, Row, Statement
from duly.stores.postgres.address import Address, check_namespace
from duly.stores.postgres.caller import AnyConnection, check_state, raw_connection, told
from duly.stores.postgres.faults import explained, is_conflict, is_cut_off, unreachable
from duly.stores.postgres.pool import Pool

T = TypeVar("T")

SHORT_PAUSE: Final = 0.01
RECONNECTIONS: Final = 2
NOTHING: Final = Statement("select 1", None)
IDENTITY: Final = Statement(
    "select current_database(), extract(epoch from pg_postmaster_start_time())::float8", None
)
"""Which database of which server, whatever way led there and whatever time zone is set there."""
GREETING: Final = b"select 1"
"""Nothing that must last: what a transaction needs is said at its beginning."""

_abandoned: list[Any] = []
"""Connections of a parent process, kept so that nobody closes them here."""


def dialect_for(namespace: str) -> PostgresDialect:
    """The schema of a namespace: `duly` has `duly_ledger`."""
    whole = check_namespace(f"{namespace}_ledger")
    return PostgresDialect(whole, sql.Identifier(whole).as_string(None))


class Lender(Protocol):
    """Lends connections for one transaction each."""

    def lent(self) -> AbstractContextManager[psycopg.Connection[Any]]: ...
    def clear(self) -> None:
        """Drop what is idle: after one connection was cut off, the others are likely to be dead too."""
        ...

    def close(self) -> None:
        """Let go of what is ours."""
        ...


class OwnConnections:
    """A few connections of our own, forgotten after a fork."""

    def __init__(self, address: Address, patience: timedelta) -> None:
        self._address = address
        self._patience = patience
        self._pool = Pool(address, patience, GREETING)
        self._process = os.getpid()

    @contextmanager
    def lent(self) -> Generator[psycopg.Connection[Any], None, None]:
        """One connection."""
        if self._process != os.getpid():
            _abandoned.extend([*self._pool.abandon(), self._pool])
            self._pool, self._process = Pool(self._address, self._patience, GREETING), os.getpid()
        with self._pool.lent() as wire:
            yield wire

    def clear(self) -> None:
        """Drop what is idle."""
        if self._process == os.getpid():
            self._pool.clear()

    def close(self) -> None:
        """What is idle now, and what a renewal has in hand when it comes back. The next use begins anew."""
        if self._process == os.getpid():
            closed, self._pool = self._pool, Pool(self._address, self._patience, GREETING)
            closed.close()


class PostgresDatabase:
    """A database of a server."""

    def __init__(
        self, address: Address, dialect: PostgresDialect, lender: Lender, bodies: Bodies, patience: timedelta
    ) -> None:
        self._address = address
        self._lender = lender
        self._patience = patience
        self._checked: weakref.WeakSet[Any] = weakref.WeakSet()
        self.dialect: Dialect = dialect
        self.bodies = bodies

    @property
    def shown(self) -> str:
        return self._address.shown

    def prepare(self) -> None:
        """The first connection says what is wrong."""

    def run(self, operation: Operation[T], patience: timedelta | None = None) -> T:
        """Perform in a short transaction of its own; tried again where that is safe, as all of ours are."""
        limit = self._patience if patience is None else patience
        until = time.monotonic() + limit.total_seconds()
        reconnections = 0
        while True:
            try:
                return self._once(operation, limit)
            except psycopg.Error as error:
                reconnections += is_cut_off(error)
                may_help = time.monotonic() < until if is_conflict(error) else is_cut_off(error)
                if not may_help or reconnections > RECONNECTIONS:
                    raise self._told(error, operation.name) from error
                if is_cut_off(error):
                    self._lender.clear()
            time.sleep(SHORT_PAUSE * (1 + spread()))

    def _once(self, operation: Operation[T], limit: timedelta) -> T:
        with self._lender.lent() as raw, raw.transaction():
            perform(raw, Statement(_beginning(limit), None))
            return drive(raw, operation)

    def _told(self, error: psycopg.Error, doing: str) -> Exception:
        if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
            return unreachable(error, self._address)
        return explained(error, self._address, doing)

    def run_on(self, connection: Any, operation: Operation[T]) -> T:
        """Perform inside the caller's transaction, as a part of it that can be undone alone."""
        if is_async(connection):
            raise must_be_awaited(connection)
        raw = raw_connection(connection)
        if not isinstance(raw, psycopg.Connection):
            raise must_be_awaited(connection)
        check_state(raw)
        try:
            if _must_begin(raw):
                perform(raw, NOTHING)
            if raw not in self._checked:
                self._compare(raw, perform(raw, IDENTITY))
            with raw.transaction():
                return drive(raw, operation)
        except psycopg.Error as error:
            raise told(error, self._address, operation.name) from error

    async def arun_on(self, connection: Any, operation: Operation[T]) -> T:
        """The same on a connection of this event loop, or on one that blocks."""
        raw = raw_connection(await connected(connection))
        if isinstance(raw, psycopg.Connection):
            return self.run_on(raw, operation)
        check_state(raw)
        try:
            if _must_begin(raw):
                await aperform(raw, NOTHING)
            if raw not in self._checked:
                self._compare(raw, await aperform(raw, IDENTITY))
            async with raw.transaction():
                return await adrive(raw, operation)
        except psycopg.Error as error:
            raise told(error, self._address, operation.name) from error

    def _compare(self, raw: Any, found: list[Row]) -> None:
        with self._lender.lent() as own, own.transaction():
            expected = perform(own, IDENTITY)
        if found != expected:
            raise WrongConnection(
                f"This connection is to the database {found[0][0]!r}, not to that of {self.shown}. "
                "Pass one to the ledger's database, or leave out connection= for a transaction apart."
            )
        self._checked.add(raw)

    def once_committed(self, act: Callable[[], object]) -> None:
        """What ran in a transaction of its own is committed."""
        act()

    def tend(self) -> None:
        """The server looks after itself."""

    def close(self) -> None:
        """Close what is idle; the next operation connects again."""
        self._lender.close()


def _must_begin(raw: AnyConnection) -> bool:
    """A transaction that the driver begins at the first statement: ours must be a part of it, not it."""
    return raw.info.transaction_status is TransactionStatus.IDLE and not raw.autocommit


def _beginning(limit: timedelta) -> str:
    milliseconds = max(1, limit // timedelta(milliseconds=1))
    return (
        "set transaction isolation level read committed, read write; "
        f"set local lock_timeout to {milliseconds}; "
        f"set local statement_timeout to {milliseconds}; "
        f"set local idle_in_transaction_session_timeout to {milliseconds}"
    )
