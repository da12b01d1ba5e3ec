"""Operations as guests in a caller's transaction: is it at the store's server, and then perform them there.

What a guest needs beforehand (a new lane) is done on a connection of the engine, so that the caller's
transaction never holds what another one waits for.
"""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar

import psycopg

from duly.errors import WrongConnection
from duly.stores.callers import awaited, connected, is_async, must_be_awaited
from duly.stores.drive import Operation, Row, Statement, Steps
from duly.stores.postgres import caller
from duly.stores.postgres.address import Address
from duly.stores.postgres.attempt import Command
from duly.stores.postgres.operations.again import Needs, Repeat
from duly.stores.postgres.spelling import Spelling
from duly.stores.rings import ring_after_commit

T = TypeVar("T")

REPEATS: Final = 5


class Host(Protocol):
    """Who performs operations on connections of the engine: the driver."""

    def run(self, operation: Operation[Any]) -> Any: ...
    def arun(self, operation: Operation[Any]) -> Awaitable[Any]: ...
    def ring(self) -> None: ...


class Guests:
    """What is done on the connections of callers."""

    def __init__(self, host: Host, address: Address, spell: Spelling) -> None:
        self._host = host
        self._address = address
        self._spell = spell
        self._home: list[Row] = []
        self._checked: weakref.WeakSet[caller.AnyConnection] = weakref.WeakSet()

    def run(self, connection: Any, operation: Operation[T]) -> T:
        """Perform inside the caller's transaction; it commits or vanishes with it."""
        if is_async(connection):
            raise must_be_awaited(connection)
        raw = caller.raw_connection(connection)
        if not isinstance(raw, psycopg.Connection):
            if raw is connection:
                raise must_be_awaited(connection)
            return awaited(self._aperform(connection, raw, operation), connection)
        return self._perform(connection, raw, operation)

    async def arun(self, connection: Any, operation: Operation[T]) -> T:
        """The same on a connection of this event loop, or on one that blocks."""
        connection = await connected(connection)
        raw = caller.raw_connection(connection)
        if isinstance(raw, psycopg.Connection):
            return self._perform(connection, raw, operation)
        return await self._aperform(connection, raw, operation)

    def _perform(self, given: Any, raw: psycopg.Connection[Any], operation: Operation[T]) -> T:
        caller.catch_up(raw)
        caller.check_state(raw)
        for _ in range(REPEATS):
            try:
                with self._explaining(operation):
                    self._check(raw)
                    value = caller.hold(raw, caller.conversation(raw, operation, self._spell))
            except Needs as need:
                need.learn(self._host.run(need.operation))
            except Repeat:
                continue
            else:
                self._ring(given, raw, operation)
                return value
        raise RuntimeError(f"{operation.name} asked {REPEATS} times for another try")

    async def _aperform(self, given: Any, raw: psycopg.AsyncConnection[Any], operation: Operation[T]) -> T:
        await caller.acatch_up(raw)
        caller.check_state(raw)
        for _ in range(REPEATS):
            try:
                with self._explaining(operation):
                    await self._acheck(raw)
                    value = await caller.ahold(raw, caller.conversation(raw, operation, self._spell))
            except Needs as need:
                need.learn(await self._host.arun(need.operation))
            except Repeat:
                continue
            else:
                self._ring(given, raw, operation)
                return value
        raise RuntimeError(f"{operation.name} asked {REPEATS} times for another try")

    @contextmanager
    def _explaining(self, operation: Operation[Any]) -> Generator[None, None, None]:
        try:
            yield
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise caller.told(error, self._address, operation.name) from error

    def _ring(self, given: Any, raw: caller.AnyConnection, operation: Operation[Any]) -> None:
        if operation.writes:
            ring_after_commit(given, self._host.ring, has_committed=caller.has_committed(raw))

    # Whether it is a connection to the store's database.

    def _check(self, raw: psycopg.Connection[Any]) -> None:
        if raw not in self._checked:
            home = self._home or self._host.run(_WHERE)
            found = caller.perform(raw, _ASK)
            self._compare(raw, found, home if found == home else self._host.run(_WHERE))

    async def _acheck(self, raw: psycopg.AsyncConnection[Any]) -> None:
        if raw not in self._checked:
            home = self._home or await self._host.arun(_WHERE)
            found = await caller.aperform(raw, _ASK)
            self._compare(raw, found, home if found == home else await self._host.arun(_WHERE))

    def _compare(self, raw: caller.AnyConnection, found: list[Row], home: list[Row]) -> None:
        self._home = home
        if found != home:
            raise WrongConnection(
                f"This connection is to the database {found[0][0]!r} at {_place(raw)}, not to that of "
                f"{self._address.shown}. Pass a connection to the store's database, or leave out connection= "
                "for a transaction apart."
            )
        self._checked.add(raw)


def _where() -> Steps[list[Row]]:
    return list((yield Statement(caller.IDENTITY, None)))


_WHERE: Final = Operation("identity", _where, writes=False)
_ASK: Final = Command(caller.IDENTITY.encode())


def _place(raw: caller.AnyConnection) -> str:
    return f"{raw.info.host or 'localhost'}:{raw.info.port}"
