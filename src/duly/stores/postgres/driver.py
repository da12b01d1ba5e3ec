"""Running operations against a server: connecting, trying again, surviving restarts and forks.

The operations themselves know nothing of this, and this knows nothing of jobs.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Protocol, TypeVar, cast

import psycopg

from duly.shield import shielded
from duly.stores.contract import Doorbell
from duly.stores.drive import Operation
from duly.stores.postgres.address import PATIENCE, check_namespace, parse
from duly.stores.postgres.attempt import Attempt, message_if_ready, message_of
from duly.stores.postgres.convoy import Convoy
from duly.stores.postgres.doorbell import Tower
from duly.stores.postgres.faults import check_server, explained, is_cut_off, unanswered, unreachable
from duly.stores.postgres.guests import Guests
from duly.stores.postgres.message import Part
from duly.stores.postgres.migrate import Migrator, shipped
from duly.stores.postgres.operations import Errand
from duly.stores.postgres.operations.again import Needs
from duly.stores.postgres.operations.intake import BATCH
from duly.stores.postgres.operations.swift import Message, Rest, Whole
from duly.stores.postgres.pool import AsyncPool, Pool
from duly.stores.postgres.spelling import Manner, Spelling
from duly.stores.postgres.talk import Outcome, aconverse, asay, converse, say
from duly.stores.postgres.wire import Wire
from duly.stores.tables.migrations import Migration

T = TypeVar("T")
R = TypeVar("R")

_drivers: weakref.WeakSet[Driver] = weakref.WeakSet()
_abandoned: list[Any] = []
"""Connections of a parent process, kept so that nobody closes them here."""


class Catalogue(Protocol):
    """What a driver must know about the operations it performs."""

    def absorb(self) -> Operation[int]: ...
    def forget(self) -> None: ...


class Driver:
    """One schema of one database, opened by each process at its first use."""

    def __init__(
        self,
        url: str,
        *,
        namespace: str,
        operations: Catalogue,
        migrations: tuple[Migration, ...] | None = None,
        patience: timedelta = PATIENCE,
        moment: str | None = None,
    ) -> None:
        self.address = self._address = parse(url)
        self.spell = self._spell = Spelling(check_namespace(namespace), moment)
        self._operations = operations
        self._migrations = shipped() if migrations is None else migrations
        self.patience = self._patience = patience
        self._manner = Manner(self._spell, patience)
        self._opening = threading.Lock()
        self._pool: Pool | None = None
        self._async_pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncPool] = (
            weakref.WeakKeyDictionary()
        )
        self._tower = Tower(self._address, self._channel)
        self._guests = Guests(self, self._address, self._spell)
        self._convoy = Convoy(self._persist)
        _drivers.add(self)

    @property
    def level(self) -> int:
        """The schema this code is made for."""
        return self._migrations[-1].number

    @property
    def _channel(self) -> str:
        return f"duly_{self._spell.namespace}".encode()[:60].decode(errors="ignore")

    # Opening and closing.

    def open(self) -> None:
        """Check the server and bring the schema up to date. The first operation does it too."""
        self._ready()

    def close(self) -> None:
        """Close every connection; a later operation opens them again."""
        self._tower.close()
        with self._opening:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()
        for async_pool in list(self._async_pools.values()):
            async_pool.let_go()
        self._async_pools.clear()
        self._operations.forget()

    def forget(self) -> None:
        """In a forked child: leave the parent's connections alone and start afresh at the next use."""
        if self._pool is not None:
            _abandoned.extend(self._pool.abandon())
        _abandoned.extend([self._pool, *self._async_pools.values()])
        self._pool = None
        self._async_pools = weakref.WeakKeyDictionary()
        self._opening = threading.Lock()
        self._convoy = Convoy(self._persist)
        self._tower = Tower(self._address, self._channel)

    def _ready(self) -> Pool:
        pool = self._pool
        if pool is not None:
            return pool
        with self._opening:
            if self._pool is None:
                self._pool = self._open()
            return self._pool

    def _open(self) -> Pool:
        self._with_migrator(lambda migrator: migrator.expand())
        return Pool(self._address, self._patience, self._manner.greeting)

    def _migrator(self, wire: Wire) -> Migrator:
        return Migrator(wire, self._spell, self._migrations, self._address)

    # Running, blocking.

    def run(self, operation: Operation[T]) -> T:
        """Perform in one transaction."""
        return shielded(self._perform, operation)  # a body may be struck in here

    def _perform(self, operation: Operation[T]) -> T:
        load = operation.load if isinstance(operation, Errand) else None
        if load is None:
            return self._persist(operation)
        placed: Any = self._convoy.carry(cast(Operation[Any], operation), load)
        return cast(T, placed)

    def _persist(self, operation: Operation[T]) -> T:
        pool = self._ready()
        message = self._message(operation)
        if message is not None:
            said = self._hurry(pool, operation, message)
            if isinstance(said, Rest):
                joined: T = said.join(self._persist(said.operation))
                return joined
            if said is not None:
                return said.value
        if operation.meanwhile is not None:  # who waits for several messages
            operation.meanwhile()
        attempt = self._attempt(operation)
        while True:
            outcome = self._try(pool, attempt)
            if outcome.error is None:
                value: T = outcome.value
                return value
            pause = attempt.pause(outcome.error, is_committing=outcome.is_committing)
            if is_cut_off(outcome.error):
                pool.clear()
            if isinstance(outcome.error, Needs):
                self._meet(outcome.error)
            if pause:
                time.sleep(pause)

    def _message(self, operation: Operation[T]) -> Message[T] | None:
        try:
            return message_of(operation)
        except Needs as need:
            self._meet(need)
        return message_if_ready(operation)

    def _hurry(self, pool: Pool, operation: Operation[T], message: Message[T]) -> Whole[T] | Rest[T] | None:
        """In one message; None when that cannot be, and nothing was done."""
        try:
            with pool.lent() as wire:
                if not wire.is_greeted:
                    return None
                if not wire.has_nothing_to_say:
                    wire.close()
                    return None
                outcome = say(wire, self._parts(message), operation.meanwhile)
        except psycopg.Error as error:
            raise unreachable(error, self._address) from error
        except UnicodeEncodeError:
            return None
        if self._is_lost(operation, outcome):
            pool.clear()
        return None if outcome.error else message.read(outcome.value)

    def _parts(self, message: Message[Any]) -> list[Part]:
        return [self._spell.numbered(text).part(given) for text, given in message.statements]

    def _is_lost(self, operation: Operation[Any], outcome: Outcome) -> bool:
        """Whether the connection is, and with it the answer; raises where it may not be asked for again."""
        error = outcome.error
        if error is None or (isinstance(error, psycopg.Error) and error.sqlstate):
            return error is not None and is_cut_off(error)  # the server says no: nothing was done
        if not isinstance(operation, Errand) or not operation.may_repeat:
            raise unanswered(error, self._address, operation.name) from error
        if not is_cut_off(error):  # it does not answer in time, and is not asked again at once
            raise explained(error, self._address, operation.name) from error
        return True

    def _attempt(self, operation: Operation[T]) -> Attempt[T]:
        absorb = self._operations.absorb()
        return Attempt(operation, self._address, self._spell, self._manner, absorb)

    def _try(self, pool: Pool, attempt: Attempt[Any]) -> Outcome:
        try:
            with pool.lent() as wire:
                return converse(wire, attempt.commands(is_greeted=wire.is_greeted))
        except psycopg.Error as error:  # no connection could be had
            raise unreachable(error, self._address) from error

    def _meet(self, need: Needs) -> None:
        answer: Any = BATCH
        while answer == BATCH:
            answer = self.run(need.operation)
        need.learn(answer)

    # Running, awaited.

    async def arun(self, operation: Operation[T]) -> T:
        """The same without holding up the event loop."""
        if self._pool is None:
            await asyncio.to_thread(self._ready)
        pool = self._async_pool()
        message = await self._amessage(operation)
        if message is not None:
            said = await self._ahurry(pool, operation, message)
            if isinstance(said, Rest):
                joined: T = said.join(await self.arun(said.operation))
                return joined
            if said is not None:
                return said.value
        attempt = self._attempt(operation)
        while True:
            outcome = await self._atry(pool, attempt)
            if outcome.error is None:
                value: T = outcome.value
                return value
            pause = attempt.pause(outcome.error, is_committing=outcome.is_committing)
            if is_cut_off(outcome.error):
                await pool.clear()
            if isinstance(outcome.error, Needs):
                await self._ameet(outcome.error)
            if pause:
                await asyncio.sleep(pause)

    async def _amessage(self, operation: Operation[T]) -> Message[T] | None:
        try:
            return message_of(operation)
        except Needs as need:
            await self._ameet(need)
        return message_if_ready(operation)

    async def _ahurry(
        self, pool: AsyncPool, operation: Operation[T], message: Message[T]
    ) -> Whole[T] | Rest[T] | None:
        try:
            async with pool.lent() as wire:
                if not wire.is_greeted:
                    return None
                if not wire.has_nothing_to_say:
                    await wire.close()
                    return None
                outcome = await asay(wire, self._parts(message))
        except psycopg.Error as error:
            raise unreachable(error, self._address) from error
        except UnicodeEncodeError:
            return None
        if self._is_lost(operation, outcome):
            await pool.clear()
        return None if outcome.error else message.read(outcome.value)

    def _async_pool(self) -> AsyncPool:
        loop = asyncio.get_running_loop()
        pool = self._async_pools.get(loop)
        if pool is None:
            pool = self._async_pools[loop] = AsyncPool(self._address, self._patience, self._manner.greeting)
        return pool

    async def _atry(self, pool: AsyncPool, attempt: Attempt[Any]) -> Outcome:
        try:
            async with pool.lent() as wire:
                return await aconverse(wire, attempt.commands(is_greeted=wire.is_greeted))
        except psycopg.Error as error:
            raise unreachable(error, self._address) from error

    async def _ameet(self, need: Needs) -> None:
        answer: Any = BATCH
        while answer == BATCH:
            answer = await self.arun(need.operation)
        need.learn(answer)

    # On the caller's connection.

    def run_on(self, connection: Any, operation: Operation[T]) -> T:
        """Perform inside the caller's transaction; it commits or vanishes with it."""
        return self._guests.run(connection, operation)

    async def arun_on(self, connection: Any, operation: Operation[T]) -> T:
        """The same on a connection of this event loop, or on one that blocks."""
        return await self._guests.arun(connection, operation)

    # The doorbell.

    def ring(self) -> None:
        """Wake the listeners of all processes."""
        self._tower.ring()

    def doorbell(self) -> Doorbell:
        """A listener of its own for whoever asks."""
        return self._tower.bell()

    # Migrations, and what `duly doctor` shows.

    def pending(self) -> list[str]:
        """The migrations this code ships and the schema has not seen; nothing is changed."""
        return self._with_migrator(lambda migrator: migrator.pending())

    def check_schema(self) -> None:
        """Raise `SchemaMismatch` when the schema was migrated for newer code since we opened it.

        A worker asks with every beat, so on a connection that is there: opening one costs more than asking.
        """
        if self._pool is not None:
            # One that is gone is no answer: a new one is asked instead.
            with suppress(psycopg.Error), self._pool.lent() as wire:
                return self._migrator(wire).check()
        return self._with_migrator(lambda migrator: migrator.check())

    def migrate(self) -> list[str]:
        """Run every pending migration, those that take something away included, and name them."""
        return self._with_migrator(lambda migrator: migrator.contract())

    def describe(self) -> dict[str, str]:
        """What a person should know about this store."""
        return self._with_migrator(self._described)

    def _described(self, migrator: Migrator) -> dict[str, str]:
        schema = migrator.read()
        return {
            "server": self._address.shown,
            "schema name": self._spell.namespace,
            "schema": str(max(schema.applied)) if schema else "none",
            "postgresql": str(migrator.wire.info.server_version),
            "connections": f"at most {self._address.connections} for work, 1 to ring, 1 to listen",
            "pooler": "no" if migrator.wire.is_direct else "yes",
            "bell": "listening" if self._tower.is_listening else "polling",
        }

    def _with_migrator(self, act: Callable[[Migrator], R]) -> R:
        try:
            with Wire.open(self._address, self._patience) as wire:
                check_server(wire.info.server_version, _encoding(wire), self._address)
                wire.patience = 0.0  # a migration may take its time
                return act(self._migrator(wire))
        except psycopg.Error as error:
            if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
                raise unreachable(error, self._address) from error
            raise explained(error, self._address, "open") from error


def _encoding(wire: Wire) -> str:
    ((encoding,),) = wire.perform(b"show server_encoding", None)
    return str(encoding)


def _forget_parents() -> None:
    for driver in list(_drivers):
        driver.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parents)
