"""Transactions on PostgreSQL, on connections kept for bodies alone."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Generator
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from duly.errors import TransactionEnded
from duly.stores.drive import Operation, Row
from duly.stores.postgres import PostgresStore
from duly.stores.postgres.attempt import Command
from duly.stores.postgres.faults import unreachable
from duly.stores.postgres.operations.again import Needs, Repeat
from duly.transactions.postgres_wires import (
    COMMIT,
    MARK,
    UNDO,
    AnyBodyConnection,
    AsyncBodyConnection,
    BodyConnection,
    Loan,
    check,
    check_mark,
    ending,
    last_words,
    not_committed,
    told,
)
from duly.transactions.words import FAILED

T = TypeVar("T")

PASSING: Final = (errors.LockNotAvailable, errors.InvalidSqlStatementName)
"""Somebody was faster, or the body made the server forget what it had prepared: said with care it will do."""


# --- in a thread ----------------------------------------------------------------------------------


class PostgresTransaction:
    """One run's transaction."""

    held = 0.0

    def __init__(self, source: PostgresSource, wire: BodyConnection, loan: Loan) -> None:
        self._source = source
        self._wire = wire
        self._loan = loan
        wire.loan = loan

    @property
    def connection(self) -> BodyConnection:
        return self._wire

    @property
    def has_begun(self) -> bool:
        return self._loan.has_begun

    @property
    def is_cut_off(self) -> bool:
        return self._wire.info.transaction_status is TransactionStatus.UNKNOWN

    def run(self, operation: Operation[T]) -> T:
        return self._source.store.run_on(self._wire, operation)

    def settle(self, operation: Operation[T]) -> T:
        self._take_over()
        check(self._wire)
        try:
            return self._hold(ending(operation, self._source.spell, self._loan))
        except (Repeat, Needs, *PASSING):
            self._wire.perform(UNDO, None)
            check_mark(self._wire.perform(MARK, None)[0][0], self._loan)
        except Exception as error:
            told(error)
        try:
            return self.run(operation)  # with care, and with whatever it needs beforehand
        except Exception as error:
            told(error)

    def _hold(self, commands: Generator[Command, list[Row], T]) -> T:
        command = next(commands)
        while True:
            try:
                command = commands.send(self._wire.perform(*command))
            except StopIteration as stop:
                value: T = stop.value
                return value

    def commit(self) -> None:
        try:
            with psycopg.Cursor(self._wire, row_factory=tuple_row) as cursor:
                said = cursor.execute(COMMIT).statusmessage
        except Exception as error:
            not_committed(error)
        if said != "COMMIT":
            raise TransactionEnded(FAILED)

    def roll_back(self) -> None:
        self._take_over()
        with suppress(Exception):  # one that cannot roll back is not fit either, and closed: that rolls back
            if self._wire.info.transaction_status is TransactionStatus.ACTIVE:
                self._wire.cancel_safe(timeout=1.0)
                self._wire.close()
            elif self._wire.info.transaction_status is not TransactionStatus.IDLE:
                self._wire.roll_back()

    def give_back(self) -> None:
        self._take_over()
        self._source.take_back(self._wire)

    def abandon(self) -> None:
        self._loan.is_abandoned = True

    def _take_over(self) -> None:
        self._loan.is_ours = True
        self._wire.patience = self._source.patience.total_seconds()
        self._wire.row_factory = tuple_row


# --- on a loop ------------------------------------------------------------------------------------


class AsyncPostgresTransaction:
    """One run's transaction, awaited."""

    held = 0.0

    def __init__(self, source: PostgresSource, wire: AsyncBodyConnection, loan: Loan) -> None:
        self._source = source
        self._wire = wire
        self._loan = loan
        wire.loan = loan

    @property
    def connection(self) -> AsyncBodyConnection:
        return self._wire

    @property
    def has_begun(self) -> bool:
        return self._loan.has_begun

    @property
    def is_cut_off(self) -> bool:
        return self._wire.info.transaction_status is TransactionStatus.UNKNOWN

    async def run(self, operation: Operation[T]) -> T:
        return await self._source.store.arun_on(self._wire, operation)

    async def settle(self, operation: Operation[T]) -> T:
        self._take_over()
        check(self._wire)
        try:
            return await self._hold(ending(operation, self._source.spell, self._loan))
        except (Repeat, Needs, *PASSING):
            await self._wire.perform(UNDO, None)
            check_mark((await self._wire.perform(MARK, None))[0][0], self._loan)
        except Exception as error:
            told(error)
        try:
            return await self.run(operation)
        except Exception as error:
            told(error)

    async def _hold(self, commands: Generator[Command, list[Row], T]) -> T:
        command = next(commands)
        while True:
            try:
                command = commands.send(await self._wire.perform(*command))
            except StopIteration as stop:
                value: T = stop.value
                return value

    async def commit(self) -> None:
        try:
            async with psycopg.AsyncCursor(self._wire, row_factory=tuple_row) as cursor:
                said = (await cursor.execute(COMMIT)).statusmessage
        except (Exception, asyncio.CancelledError) as error:
            not_committed(error)
        if said != "COMMIT":
            raise TransactionEnded(FAILED)

    async def roll_back(self) -> None:
        self._take_over()
        with suppress(Exception):
            if self._wire.info.transaction_status is TransactionStatus.ACTIVE:
                await self._wire.cancel_safe(timeout=1.0)
                await self._wire.close()
            elif self._wire.info.transaction_status is not TransactionStatus.IDLE:
                await self._wire.roll_back()

    async def give_back(self) -> None:
        self._take_over()
        await self._source.atake_back(self._wire)

    def drop(self) -> None:
        self._wire.pgconn.finish()

    def abandon(self) -> None:
        self._loan.is_abandoned = True

    def _take_over(self) -> None:
        self._loan.is_ours = True
        self._wire.patience = self._source.patience.total_seconds()
        self._wire.row_factory = tuple_row


# --- where connections come from ------------------------------------------------------------------


class PostgresSource:
    """Connections for bodies: at most one for each that runs, opened at need and kept for the next."""

    is_ambient = False

    def __init__(self, store: PostgresStore, lease: timedelta) -> None:
        self.store = store
        self.spell = store.driver.spell
        self.patience = store.driver.patience
        self._address = store.driver.address
        self._lease = lease
        self._greeting = b"prepare duly_end as " + last_words(self.spell)
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._idle: list[BodyConnection] = []
        self._idle_on: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[AsyncBodyConnection]] = (
            weakref.WeakKeyDictionary()
        )
        self._is_closed = False
        self._inherited: list[Any] = []
        """A parent's connections: kept, so that nobody closes them here."""

    def lend(self, run_id: str) -> PostgresTransaction:
        """A connection whose transaction begins with the first statement."""
        wire = self._take() or self._open()
        return PostgresTransaction(self, wire, Loan(run_id, self._lease, is_prepared=wire.is_greeted))

    async def alend(self, run_id: str) -> AsyncPostgresTransaction:
        """The same for this event loop."""
        wire = self._take_here() or await self._aopen()
        return AsyncPostgresTransaction(self, wire, Loan(run_id, self._lease, is_prepared=wire.is_greeted))

    def _take(self) -> BodyConnection | None:
        with self._lock:
            self._forget_parents()
            return self._idle.pop() if self._idle else None

    def _take_here(self) -> AsyncBodyConnection | None:
        with self._lock:
            self._forget_parents()
            idle = self._idle_on.get(asyncio.get_running_loop())
            return idle.pop() if idle else None

    def _forget_parents(self) -> None:
        if self._pid != os.getpid():
            self._inherited += [self._idle, *self._idle_on.values()]
            self._idle, self._idle_on, self._pid = [], weakref.WeakKeyDictionary(), os.getpid()

    def _open(self) -> BodyConnection:
        try:
            wire = BodyConnection.open(self._address, self.patience)
            assert isinstance(wire, BodyConnection)
            try:
                wire.greet(self._greeting)
                wire.autocommit = False  # a second guard: the driver itself would begin, not go without
            except BaseException:
                wire.close()
                raise
        except psycopg.Error as error:
            raise unreachable(error, self._address) from error
        wire.patience = 0.0
        return wire

    async def _aopen(self) -> AsyncBodyConnection:
        try:
            wire = await AsyncBodyConnection.open(self._address, self.patience)
            assert isinstance(wire, AsyncBodyConnection)
            try:
                await wire.greet(self._greeting)
                await wire.set_autocommit(False)
            except BaseException:
                wire.pgconn.finish()
                raise
        except psycopg.Error as error:
            raise unreachable(error, self._address) from error
        wire.patience = 0.0
        return wire

    def take_back(self, wire: BodyConnection) -> None:
        """Keep it for the next run, unless something is wrong with it or there is no next."""
        wire.loan = None
        with self._lock:
            if is_kept := wire.is_fit and not self._is_closed:
                _make_plain(wire)
                self._idle.append(wire)
        if not is_kept:
            wire.close()
            self._clear()

    async def atake_back(self, wire: AsyncBodyConnection) -> None:
        """The same for this event loop."""
        wire.loan = None
        with self._lock:
            if is_kept := wire.is_fit and not self._is_closed:
                _make_plain(wire)
                self._idle_on.setdefault(asyncio.get_running_loop(), []).append(wire)
        if not is_kept:
            await wire.close()
            await self._aclear()

    def _clear(self) -> None:
        """After one connection was lost the others are likely to be dead too."""
        with self._lock:
            idle, self._idle = self._idle, []
        for wire in idle:
            wire.close()

    async def _aclear(self) -> None:
        with self._lock:
            idle = self._idle_on.pop(asyncio.get_running_loop(), [])
        for wire in idle:
            await wire.close()

    def close(self) -> None:
        """Close what is not lent, without a word on loops, which may be gone; keep nothing from here on."""
        with self._lock:
            self._forget_parents()
            self._is_closed = True
            idle = [wire for wires in self._idle_on.values() for wire in wires]
            self._idle_on.clear()
        self._clear()
        for wire in idle:
            wire.pgconn.finish()


def _make_plain(wire: AnyBodyConnection) -> None:
    """Nothing that one body set on the object is there for the next."""
    wire.row_factory = tuple_row
    wire.patience = 0.0
