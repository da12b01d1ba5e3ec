"""The transaction of a body on PostgreSQL, on a connection of its own.

It holds no lock of ours while the body runs. A local limit on idleness bounds what a process frozen between
an effect and the commit can hold up.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from duly.errors import DefinitionError
from duly.ledger.postgres.talk import adrive, drive
from duly.stores.drive import Operation
from duly.stores.postgres.address import Address
from duly.stores.postgres.faults import unreachable

T = TypeVar("T")


class RolledBack(Exception):
    """What the driver is told when a body's transaction is to end undone."""


class PostgresBodies:
    """Connections for bodies, one each, so that what a body sets for its session ends with it."""

    is_ambient = False

    def __init__(self, address: Address) -> None:
        self._address = address

    def begin(self, limit: timedelta) -> PostgresTransaction:
        """Connect and begin."""
        try:
            raw = psycopg.connect(self._address.conninfo, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            raise unreachable(error, self._address) from error
        return PostgresTransaction(raw, limit)

    async def abegin(self, limit: timedelta) -> AsyncPostgresTransaction:
        """The same, awaited."""
        try:
            raw = await psycopg.AsyncConnection.connect(
                self._address.conninfo, autocommit=True, prepare_threshold=None
            )
        except psycopg.Error as error:
            raise unreachable(error, self._address) from error
        made = AsyncPostgresTransaction(raw)
        await made.begin(limit)
        return made


def idle_limit(limit: timedelta) -> bytes:
    """For this transaction only: nothing stays behind on a connection that a pooler gives to others."""
    milliseconds = max(1, limit // timedelta(milliseconds=1))
    return f"set local idle_in_transaction_session_timeout to {milliseconds}".encode()


def refuse_autocommit(raw: Any) -> None:
    """On a connection that commits each statement there is no transaction to complete."""
    if raw.autocommit:
        raise DefinitionError(
            "This engine commits each statement by itself (isolation_level='AUTOCOMMIT'), so effects and "
            "their completion would part. Give the ledger an engine without that."
        )


class PostgresTransaction:
    """One body's transaction. The driver refuses `commit()` inside its block, and nests what is nested."""

    def __init__(self, raw: psycopg.Connection[Any], limit: timedelta) -> None:
        self.connection: Any = raw
        self._raw = raw
        self._block = raw.transaction()
        try:
            self._block.__enter__()
            raw.execute(idle_limit(limit))
        except BaseException:
            raw.close()
            raise

    def perform(self, operation: Operation[T]) -> T:
        """As a part of the transaction."""
        return drive(self._raw, operation)

    def commit(self) -> None:
        """Effects and completion, together."""
        try:
            self._block.__exit__(None, None, None)
        finally:
            self._raw.close()

    def rollback(self) -> None:
        """Neither. A connection that is gone has rolled back already."""
        try:
            if self._raw.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                self._block.__exit__(RolledBack, RolledBack(), None)
        finally:
            self._raw.close()


class AsyncPostgresTransaction:
    """One body's transaction on an event loop."""

    def __init__(self, raw: psycopg.AsyncConnection[Any]) -> None:
        self.connection: Any = raw
        self._raw = raw
        self._block = raw.transaction()

    async def begin(self, limit: timedelta) -> None:
        """Say what holds for it."""
        try:
            await self._block.__aenter__()
            await self._raw.execute(idle_limit(limit))
        except BaseException:
            await self._raw.close()
            raise

    async def perform(self, operation: Operation[T]) -> T:
        """As a part of the transaction."""
        return await adrive(self._raw, operation)

    async def commit(self) -> None:
        """Effects and completion, together."""
        try:
            await self._block.__aexit__(None, None, None)
        finally:
            await self._raw.close()

    async def rollback(self) -> None:
        """Neither."""
        try:
            if self._raw.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                await self._block.__aexit__(RolledBack, RolledBack(), None)
        finally:
            await self._raw.close()
