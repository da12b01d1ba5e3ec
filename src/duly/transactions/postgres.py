"""Transactions on PostgreSQL, on connections kept for bodies alone.

What is said on a wire is said once, in generators; a thread and an event loop differ only in how they hold
the conversation.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from sys import getrefcount
from typing import Any, Final, Generic, NamedTuple, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from duly.stores.contract import Settlement
from duly.stores.drive import Operation, Row
from duly.stores.postgres import PostgresStore
from duly.stores.postgres.attempt import Command
from duly.stores.postgres.faults import unreachable
from duly.stores.postgres.operations.again import Needs, Repeat
from duly.transactions.contract import UNSHIELDED, Shield
from duly.transactions.postgres_wires import (
    COMMIT,
    MARK,
    UNDO,
    AnyBodyConnection,
    AsyncBodyConnection,
    BodyConnection,
    Finishing,
    Loan,
    check,
    check_committed,
    check_mark,
    ending,
    last_words,
    telling,
    telling_of_commit,
)

T = TypeVar("T")
W = TypeVar("W", bound=AnyBodyConnection)

PASSING: Final = (Repeat, Needs, errors.LockNotAvailable, errors.InvalidSqlStatementName)
"""Somebody was faster, or the body made the server forget what it had prepared: said with care it will do."""

DOOMED: Final = (errors.SerializationFailure, errors.DeadlockDetected)
"""The whole transaction, savepoint and all, is not to be saved."""


class Said(NamedTuple):
    """What the end of a transaction answered."""

    value: Any


class Lent(Generic[W]):
    """One run's transaction: what threads and loops have in common."""

    held = 0.0
    is_borrowed = False

    def __init__(self, source: PostgresSource, wire: W, run_id: str) -> None:
        self._source = source
        self._wire = wire
        self._loan = wire.loan = source.loan(run_id, wire)
        self._count: int | None = None

    @property
    def connection(self) -> W:
        if self._count is None:
            self._count = getrefcount(self._wire)
        return self._wire

    @property
    def has_begun(self) -> bool:
        return self._loan.has_begun

    @property
    def is_cut_off(self) -> bool:
        return self._status == TransactionStatus.UNKNOWN

    @property
    def _status(self) -> int:
        """Asked of libpq: the driver's word for it costs four times as much."""
        status: int = self._wire.pgconn.transaction_status
        return status

    @property
    def _is_held_on_to(self) -> bool:
        """The body has left a reference to it, and might write into somebody else's transaction."""
        return self._count is not None and getrefcount(self._wire) > self._count

    def abandon(self) -> None:
        self._loan.is_abandoned = True

    def _take_over(self) -> None:
        self._loan.is_ours = True
        self._wire.patience = self._source.patience.total_seconds()
        self._wire.row_factory = tuple_row

    def _ending(self, operation: Operation[Any]) -> Generator[Command, list[Row], Said | None]:
        """The last words. None when they must be said with care, and with whatever they need beforehand."""
        self._take_over()
        check(self._wire)
        try:
            return Said((yield from ending(operation, self._source.spell, self._loan)))
        except PASSING:
            yield Command(UNDO)
            ((mark,),) = yield Command(MARK)
            check_mark(mark, self._loan)
            return None

    def _finishing(self, settlement: Settlement) -> bytes | None:
        """One message that settles and commits; None where it takes a conversation."""
        wire, finishing = self._wire, self._source.finishing
        fence = self._source.store.ending(settlement) if finishing.names <= wire.known else None
        if fence is None or self._status != TransactionStatus.INTRANS or wire.has_word:
            return None
        self._take_over()
        return finishing(self._loan.mark, fence)

    def _is_undone(self, error: psycopg.Error) -> bool:
        """A statement before the COMMIT failed; whatever it was, a conversation will tell."""
        if isinstance(error, errors.InvalidSqlStatementName):
            self._wire.known = frozenset()  # the body had the server forget them
        return self._status == TransactionStatus.INERROR and not isinstance(error, DOOMED)

    def _finish(self) -> None:
        self._take_over()
        is_fit = not self._is_held_on_to  # asked before we hold it ourselves
        self._source.take_back(self._wire, is_fit=is_fit)


class PostgresTransaction(Lent[BodyConnection]):
    """One run's transaction in a thread."""

    def run(self, operation: Operation[T]) -> T:
        return self._source.store.run_on(self._wire, operation)

    def finish(self, worker: str, settlement: Settlement) -> bool:
        text = self._finishing(settlement)
        if text is None:
            return False
        with telling_of_commit():
            try:
                check_committed(self._wire.ask(text))
            except psycopg.Error as error:
                if not self._is_undone(error):
                    raise
                self._wire.perform(UNDO, None)
                return False
        return True

    def settle(self, operation: Operation[T]) -> T:
        with telling():
            said = self._hold(self._ending(operation))
            value: T = self.run(operation) if said is None else said.value
            return value

    def _hold(self, words: Generator[Command, list[Row], Said | None]) -> Said | None:
        try:
            command = next(words)
            while True:
                try:
                    rows = self._wire.perform(*command)
                except Exception as error:
                    command = words.throw(error)
                else:
                    command = words.send(rows)
        except StopIteration as stop:
            said: Said | None = stop.value
            return said

    def commit(self) -> None:
        with telling_of_commit():
            said = self._wire.ask(COMMIT)
        check_committed(said)

    def roll_back(self) -> None:
        self._take_over()
        status = self._status
        if status == TransactionStatus.IDLE:
            return
        with suppress(Exception):  # one that cannot roll back is not fit either, and closed: that rolls back
            if status == TransactionStatus.ACTIVE:
                self._wire.cancel_safe(timeout=1.0)
            else:
                self._wire.roll_back()

    def give_back(self) -> None:
        self._finish()


class AsyncPostgresTransaction(Lent[AsyncBodyConnection]):
    """One run's transaction, awaited."""

    async def run(self, operation: Operation[T]) -> T:
        return await self._source.store.arun_on(self._wire, operation)

    async def finish(self, worker: str, settlement: Settlement) -> bool:
        text = self._finishing(settlement)
        if text is None:
            return False
        with telling_of_commit():
            try:
                check_committed(await self._wire.ask(text))
            except psycopg.Error as error:
                if not self._is_undone(error):
                    raise
                await self._wire.perform(UNDO, None)
                return False
        return True

    async def settle(self, operation: Operation[T]) -> T:
        with telling():
            said = await self._hold(self._ending(operation))
            value: T = await self.run(operation) if said is None else said.value
            return value

    async def _hold(self, words: Generator[Command, list[Row], Said | None]) -> Said | None:
        try:
            command = next(words)
            while True:
                try:
                    rows = await self._wire.perform(*command)
                except Exception as error:
                    command = words.throw(error)
                else:
                    command = words.send(rows)
        except StopIteration as stop:
            said: Said | None = stop.value
            return said

    async def commit(self) -> None:
        with telling_of_commit():
            said = await self._wire.ask(COMMIT)
        check_committed(said)

    async def roll_back(self) -> None:
        self._take_over()
        status = self._status
        if status == TransactionStatus.IDLE:
            return
        with suppress(Exception):
            if status == TransactionStatus.ACTIVE:
                await self._wire.cancel_safe(timeout=1.0)
            else:
                await self._wire.roll_back()

    async def give_back(self) -> None:
        self._finish()

    def drop(self) -> None:
        self._wire.pgconn.finish()


class PostgresSource:
    """Connections for bodies: at most one for each that runs, opened at need and kept for the next.

    Whatever was opened is kept here, lent, or closed.
    """

    is_ambient = False

    def __init__(self, store: PostgresStore, lease: timedelta) -> None:
        self.store = store
        self.spell = store.driver.spell
        self.patience = store.driver.patience
        self._address = store.driver.address
        self._lease = lease
        self._greeting = b"prepare duly_end as " + last_words(self.spell)
        self.finishing = Finishing(self.spell)
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._idle: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
        """By whose they are: a loop's own, or, under this source itself, every thread's."""
        self._is_closed = False
        self._inherited: list[Any] = []
        """A parent's connections: kept, so that nobody closes them here."""

    def lend(self, run_id: str, shield: Shield = UNSHIELDED) -> PostgresTransaction:
        """A connection whose transaction begins with the first statement."""
        return PostgresTransaction(self, self._take(self) or self._open(), run_id)

    async def alend(self, run_id: str) -> AsyncPostgresTransaction:
        """The same for this event loop."""
        wire = self._take(asyncio.get_running_loop()) or await self._aopen()
        return AsyncPostgresTransaction(self, wire, run_id)

    def loan(self, run_id: str, wire: AnyBodyConnection) -> Loan:
        """What is lent with the connection."""
        return Loan(run_id, self._lease, is_prepared=wire.is_greeted)

    def _take(self, owner: Any) -> Any:
        self._forget_parents()
        while True:
            with self._lock:
                idle = self._idle.get(owner)
                wire = idle.pop() if idle else None
            if wire is None or wire.has_nothing_to_say:
                return wire
            wire.pgconn.finish()

    def _forget_parents(self) -> None:
        if self._pid != os.getpid():
            self._inherited.append(self._idle)
            self._idle, self._pid = weakref.WeakKeyDictionary(), os.getpid()
            self._lock = threading.Lock()  # nobody is left here to let go of the old one

    def _open(self) -> BodyConnection:
        with self._reaching():
            wire = BodyConnection.open(self._address, self.patience)
            assert isinstance(wire, BodyConnection)
            with _closed_on_failure(wire):
                wire.greet(self._greeting)
                wire.learn(self.finishing.statements if wire.is_greeted else ())
                wire.set_autocommit(False)  # a second guard: the driver itself would begin, not go without
        return _made_plain(wire)

    async def _aopen(self) -> AsyncBodyConnection:
        with self._reaching():
            wire = await AsyncBodyConnection.open(self._address, self.patience)
            assert isinstance(wire, AsyncBodyConnection)
            with _closed_on_failure(wire):
                await wire.greet(self._greeting)
                await wire.learn(self.finishing.statements if wire.is_greeted else ())
                await wire.set_autocommit(False)
        return _made_plain(wire)

    @contextmanager
    def _reaching(self) -> Generator[None, None, None]:
        try:
            yield
        except psycopg.Error as error:
            raise unreachable(error, self._address) from error

    def take_back(self, wire: AnyBodyConnection, *, is_fit: bool) -> None:
        """Keep it for the next run, unless something is wrong with it or there is no next."""
        if wire.loan is not None and wire.loan.pid != os.getpid():
            self._inherited.append(wire)
            return
        is_lost = not wire.is_fit
        wire.loan = None
        owner: Any = self if isinstance(wire, BodyConnection) else asyncio.get_running_loop()
        with self._lock:
            if is_fit and not is_lost and not self._is_closed:
                self._idle.setdefault(owner, []).append(_made_plain(wire))
                return
        wire.pgconn.finish()
        if is_lost:  # then the others are likely to be dead too
            self._clear(owner)

    def _clear(self, owner: Any) -> None:
        with self._lock:
            idle = self._idle.pop(owner, [])
        for wire in idle:
            wire.pgconn.finish()

    def close(self) -> None:
        """Close what is not lent, without a word on loops, which may be gone; keep nothing from here on."""
        self._forget_parents()
        with self._lock:
            self._is_closed = True
            owners = list(self._idle)
        for owner in owners:
            self._clear(owner)


@contextmanager
def _closed_on_failure(wire: AnyBodyConnection) -> Generator[None, None, None]:
    try:
        yield
    except BaseException:
        wire.pgconn.finish()
        raise


def _made_plain(wire: W) -> W:
    """Nothing that one body set on the object is there for the next."""
    wire.row_factory = tuple_row
    wire.patience = 0.0
    return wire
