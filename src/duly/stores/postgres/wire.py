"""Connections of the engine, none of which waits without end.

A statement has a limit on the server, set with each transaction. Here is the limit for everything else: a
server that is gone, a pooler that has no connection left to give.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

import psycopg
from psycopg.adapt import Transformer
from psycopg.generators import execute, fetch_many
from psycopg.pq import ConnStatus, PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from duly.stores.drive import Row
from duly.stores.postgres.address import Address
from duly.stores.postgres.message import Numbered, Part, Values, hand_over, preparing, read, saying

T = TypeVar("T")

GRACE: Final = timedelta(seconds=2)
"""How much longer than the server's own limit to wait for its word."""
OK: Final = int(ConnStatus.OK)
IDLE: Final = int(TransactionStatus.IDLE)
TICK: Final = 0.1
"""Seconds until whoever waits looks up: only then can it be interrupted by another thread."""
MOMENT: Final = 1
"""Milliseconds between two things that a caller does while the server is at work."""
TOO_LATE: Final = "the server did not answer in time"
PREPARE_AFTER: Final = 3
ENCODING: Final = "UTF8"
"""Messages are written and read so, whatever the environment says."""
WHO: Final = b"select pg_backend_pid()"
ANEW: Final = b"/* planned anew */"
"""How a statement begins whose plan depends on its values: the states, lanes and limit of a page."""


class Overdue(psycopg.OperationalError):
    """The server did not answer in time; the connection is of no use any more."""


def within(steps: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
    """The driver's own conversation with the server, ended when nothing moves for so long.

    What we do between two words, such as packing the next part of a message, is not the server's delay.
    """
    until: float | None = None
    is_ready: Any = None
    while True:
        try:
            waits_for = steps.send(is_ready)
        except StopIteration as stop:
            value: T = stop.value
            return value
        is_ready = yield waits_for
        if is_ready:
            until = None
        elif until is None:
            until = time.monotonic() + seconds - TICK  # for so long it was awaited already
        elif time.monotonic() > until:
            raise Overdue(TOO_LATE)


class Acquaintance(psycopg.BaseConnection[Row]):
    """What is known about the other end of a connection, sync or async."""

    patience: float = 0.0
    is_direct: bool = False
    """Whether it leads to the server itself: behind a pooler each transaction may meet another one."""
    is_greeted: bool = False
    known: frozenset[bytes] = frozenset()
    """Statements for messages that the server has been given, by name."""
    _look: Any = None
    _reader: Any = None

    def meet(self, address: Address, rows: list[Row]) -> None:
        """Learn from the answer to WHO: a pooler stands between us if another process let us in."""
        self.is_direct = address.is_direct and rows[0][0] == self.info.backend_pid
        self.prepare_threshold = PREPARE_AFTER if self.is_direct else None

    @property
    def is_fit(self) -> bool:
        """Whether another transaction may begin on it. Asked of libpq: the driver's words cost four times."""
        pgconn = self.pgconn
        return pgconn.status == OK and pgconn.transaction_status == IDLE

    @property
    def has_nothing_to_say(self) -> bool:
        """Whether one that was kept is still good: a server that ended it has left its last word there."""
        return self.is_fit and not self._is_readable()

    def _is_readable(self) -> bool:
        look = self.look
        if look is None:
            return bool(select.select([self.pgconn.socket], [], [], 0)[0])
        return bool(look.poll(0))

    @property
    def look(self) -> Any:
        """Waits for the server's word, on every descriptor, where select stops at 1024; None on Windows."""
        if self._look is None and hasattr(select, "poll"):
            self._look = select.poll()
            self._look.register(self.pgconn.socket, select.POLLIN)
        return self._look

    @property
    def reader(self) -> Any:
        """Reads rows of answers to messages; it remembers how each type is read, as a cursor does.

        It knows the types, not the connection: who lends one to a body counts who else holds it.
        """
        if self._reader is None:
            self._reader = Transformer(self.adapters)
        return self._reader

    def _unknown(self, statements: Iterable[Numbered]) -> list[Numbered]:
        return [one for one in dict.fromkeys(statements) if one.name and one.name not in self.known]

    def knows(self, parts: Sequence[Part]) -> bool:
        """Whether nothing of a message is still to be prepared."""
        return all([not statement.name or statement.name in self.known for statement, _ in parts])  # noqa: C419

    @property
    def _is_torn(self) -> bool:
        """A message was broken off, and nobody knows which answers are still to come."""
        return not self.closed and self.pgconn.pipeline_status != PipelineStatus.OFF


class Wire(Acquaintance, psycopg.Connection[Row]):
    """A connection for threads."""

    def wait(self, gen: Any, *limits: Any, **named: Any) -> Any:
        """Drive the conversation; called by the driver for everything it does, with limits of its own."""
        if not self.patience:
            return super().wait(gen, *limits, **named)
        try:
            return super().wait(within(gen, self.patience), *limits, **named)
        except Overdue:
            self.close()
            raise

    @classmethod
    def open(cls, address: Address, patience: timedelta) -> Wire:
        """Connect."""
        conninfo = address.conninfo
        wire = cls.connect(conninfo, autocommit=True, row_factory=tuple_row, client_encoding=ENCODING)
        wire.patience = (patience + GRACE).total_seconds()
        try:
            wire.meet(address, wire.perform(WHO, None))
        except BaseException:
            wire.close()
            raise
        return wire

    def greet(self, greeting: bytes) -> None:
        """Say once what holds for every transaction."""
        if self.is_direct and not self.is_greeted:
            self.perform(greeting, None)
            self.is_greeted = True

    def perform(self, text: bytes, parameters: Any) -> list[Row]:
        """Execute one statement, or several without parameters; answers the rows of the last."""
        with self.cursor() as cursor:
            cursor.execute(text, parameters, prepare=_prepares(text))
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def learn(self, statements: Iterable[Numbered]) -> None:
        """Have the server prepare what it does not know yet."""
        for statement in self._unknown(statements):
            with self.lock:
                self.wait(preparing(self.pgconn, statement))
            self.known |= {statement.name}

    def say(self, parts: Sequence[Part], meanwhile: Callable[[], object] | None = None) -> list[list[Row]]:
        """Send one message, and answer the rows of each of its statements."""
        if meanwhile is not None:
            meanwhile = partial(self._use_time, meanwhile)
        if not self.knows(parts):
            self.learn(statement for statement, _ in parts)
        with self.lock:
            if len(parts) == 1 and self.patience and self._look is not None:
                return [self._said(*parts[0], meanwhile)]
            try:
                answers: list[list[Row]] = self.wait(saying(self.pgconn, self.reader, parts, meanwhile))
                return answers
            finally:
                if self._is_torn:
                    self.close()

    def _use_time(self, act: Callable[[], object]) -> None:
        """Until the answer comes, or there is nothing more to do."""
        while act() and (look := self.look) is not None and not look.poll(MOMENT):
            pass

    def _said(
        self,
        statement: Numbered,
        values: Values | Callable[[], Values],
        meanwhile: Callable[[], object] | None,
    ) -> list[Row]:
        """One statement alone, past the driver's way to wait: that takes 10 to 20 µs of each message."""
        pgconn = self.pgconn
        hand_over(pgconn, statement, values)
        is_sent = pgconn.flush() == 0
        if is_sent and meanwhile is not None:
            meanwhile()
        return read(self._awaited(fetch_many(pgconn)) if is_sent else self.wait(execute(pgconn)), self.reader)

    def _awaited(self, steps: Generator[Any, Any, T]) -> T:
        """Wait for what has been sent; who is interrupted meanwhile leaves a connection of no use."""
        look, left = self._look, self.patience / TICK
        try:
            next(steps)
            while left > 0:
                is_there = look.poll(1000 * TICK)
                left -= not is_there
                steps.send(bool(is_there))
        except StopIteration as stop:
            value: T = stop.value
            return value
        except psycopg.Error:
            raise
        except BaseException:
            self.close()
            raise
        self.close()
        raise Overdue(TOO_LATE)

    def roll_back(self) -> None:
        """Undo the transaction; not with a cursor, which would make the server forget all it prepared."""
        with self.lock:
            self.pgconn.send_query(b"rollback")
            self.wait(execute(self.pgconn))


class AsyncWire(Acquaintance, psycopg.AsyncConnection[Row]):
    """A connection for one event loop."""

    async def wait(self, gen: Any, *limits: Any, **named: Any) -> Any:
        """Drive the conversation; called by the driver for everything it does, with limits of its own."""
        if not self.patience:
            return await super().wait(gen, *limits, **named)
        try:
            return await super().wait(within(gen, self.patience), *limits, **named)
        except Overdue:
            await self.close()
            raise

    def __del__(self, *_: Any) -> None:
        """An event loop may end without a word; its connections end with it."""

    @classmethod
    async def open(cls, address: Address, patience: timedelta) -> AsyncWire:
        """Connect."""
        conninfo = address.conninfo
        wire = await cls.connect(conninfo, autocommit=True, row_factory=tuple_row, client_encoding=ENCODING)
        wire.patience = (patience + GRACE).total_seconds()
        try:
            wire.meet(address, await wire.perform(WHO, None))
        except BaseException:
            await wire.close()
            raise
        return wire

    async def greet(self, greeting: bytes) -> None:
        """Say once what holds for every transaction."""
        if self.is_direct and not self.is_greeted:
            await self.perform(greeting, None)
            self.is_greeted = True

    async def perform(self, text: bytes, parameters: Any) -> list[Row]:
        """Execute one statement, or several without parameters; answers the rows of the last."""
        async with self.cursor() as cursor:
            await cursor.execute(text, parameters, prepare=_prepares(text))
            while cursor.nextset():
                pass
            return await cursor.fetchall() if cursor.description else []

    async def learn(self, statements: Iterable[Numbered]) -> None:
        """Have the server prepare what it does not know yet."""
        for statement in self._unknown(statements):
            async with self.lock:
                await self.wait(preparing(self.pgconn, statement))
            self.known |= {statement.name}

    async def say(self, parts: Sequence[Part]) -> list[list[Row]]:
        """Send one message, and answer the rows of each of its statements."""
        if not self.knows(parts):
            await self.learn(statement for statement, _ in parts)
        async with self.lock:
            try:
                answers: list[list[Row]] = await self.wait(saying(self.pgconn, self.reader, parts))
                return answers
            finally:
                if self._is_torn:
                    self.pgconn.finish()

    async def roll_back(self) -> None:
        """Undo the transaction; not with a cursor, which would make the server forget all it prepared."""
        async with self.lock:
            self.pgconn.send_query(b"rollback")
            await self.wait(execute(self.pgconn))


def _prepares(text: bytes) -> bool | None:
    """A prepared plan for all values read a million rows where one for these values reads fifty."""
    return False if text.startswith(ANEW) else None
