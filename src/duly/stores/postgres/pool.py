"""A bounded number of connections, kept for the next operation.

Small on purpose: a worker needs one for its turns, one for its heartbeat, and a few for callers in other
threads. Whoever finds all of them in use waits for one, and not without end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from queue import Empty, SimpleQueue

import psycopg

from duly.errors import StoreUnavailable
from duly.stores.postgres.address import Address
from duly.stores.postgres.wire import AsyncWire, Wire


def _all_in_use(address: Address, patience: timedelta) -> StoreUnavailable:
    return StoreUnavailable(
        f"All {address.connections} connections of this process to {address.shown} were in use for "
        f"{patience.total_seconds():g} s. Raise `connections` in the URL."
    )


class Loan:
    """One connection, for one transaction. Not a generator, which would take every request 2 µs."""

    __slots__ = ("_pool", "_wire")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def __enter__(self) -> Wire:
        self._wire = self._pool.take()
        return self._wire

    def __exit__(self, *_: object) -> None:
        self._pool.give_back(self._wire)


class Pool:
    """Connections for the threads of one process."""

    def __init__(self, address: Address, patience: timedelta, greeting: bytes) -> None:
        self._address = address
        self._patience = patience
        self._seconds = patience.total_seconds()
        self._greeting = greeting
        # A queue of places, in C, where the semaphore of the standard library is made of Python.
        self._places: SimpleQueue[None] = SimpleQueue()
        for _ in range(address.connections):
            self._places.put(None)
        self._idle: list[Wire] = []
        self._is_closed = False

    def lent(self) -> Loan:
        """One connection, for one transaction."""
        return Loan(self)

    def take(self) -> Wire:
        """A connection that is fit, when there is a place for one more in use."""
        try:
            self._places.get(timeout=self._seconds)
        except Empty:
            raise _all_in_use(self._address, self._patience) from None
        try:
            return self._take()
        except BaseException:
            self._places.put(None)
            raise

    def give_back(self, wire: Wire) -> None:
        """Keep it for the next, if it is still fit."""
        try:
            self._give_back(wire)
        finally:
            self._places.put(None)

    def _take(self) -> Wire:
        while self._idle:
            with suppress(IndexError):  # another thread was faster
                wire = self._idle.pop()
                if wire.is_fit:
                    return wire
                wire.close()
        wire = Wire.open(self._address, self._patience)
        try:
            wire.greet(self._greeting)
        except BaseException:
            wire.close()
            raise
        return wire

    def _give_back(self, wire: Wire) -> None:
        if not wire.is_fit:
            wire.close()
            return
        self._idle.append(wire)
        if self._is_closed:  # looked at afterwards, or whoever closes meanwhile would miss this one
            self.clear()

    def close(self) -> None:
        """Close what is idle now, and the rest when it is given back."""
        self._is_closed = True
        self.clear()

    def clear(self) -> None:
        """Drop what is idle: after one connection was cut off, the others are likely to be dead too."""
        while self._idle:
            with suppress(IndexError, psycopg.Error):
                self._idle.pop().close()

    def abandon(self) -> list[Wire]:
        """In a forked child: what belongs to the parent, to be kept from being closed."""
        abandoned, self._idle = self._idle, []
        return abandoned


class AsyncPool:
    """Connections for one event loop."""

    def __init__(self, address: Address, patience: timedelta, greeting: bytes) -> None:
        self._address = address
        self._patience = patience
        self._greeting = greeting
        self._places = asyncio.BoundedSemaphore(address.connections)
        self._idle: list[AsyncWire] = []
        self._is_closed = False

    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[AsyncWire, None]:
        """One connection, for one transaction."""
        try:
            async with asyncio.timeout(self._patience.total_seconds()):
                await self._places.acquire()
        except TimeoutError:
            raise _all_in_use(self._address, self._patience) from None
        try:
            wire = await self._take()
            try:
                yield wire
            finally:
                await self._give_back(wire)
        finally:
            self._places.release()

    async def _take(self) -> AsyncWire:
        while self._idle:
            wire = self._idle.pop()
            if wire.is_fit:
                return wire
            await wire.close()
        wire = await AsyncWire.open(self._address, self._patience)
        try:
            await wire.greet(self._greeting)
        except BaseException:
            await wire.close()
            raise
        return wire

    async def _give_back(self, wire: AsyncWire) -> None:
        if wire.is_fit and not self._is_closed:
            self._idle.append(wire)
        else:
            await wire.close()

    async def clear(self) -> None:
        """Drop what is idle."""
        while self._idle:
            with suppress(psycopg.Error):
                await self._idle.pop().close()

    def let_go(self) -> None:
        """Close the sockets without a word, since the loop may be gone; the rest when it is given back."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().pgconn.finish()
