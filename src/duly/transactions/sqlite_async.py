"""The same transaction for bodies on an event loop: each statement runs in a thread and is awaited.

The thread belongs to this transaction alone. In a shared pool those who wait for the write lock could take
every thread, and the one who holds it would find none to go on with.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

from duly.errors import TransactionEnded
from duly.stores.contract import Settlement
from duly.stores.drive import Operation
from duly.stores.sqlite.turns import holds_here
from duly.transactions.sqlite import SqliteTransaction
from duly.transactions.words import NOT_YOURS

T = TypeVar("T")


class AsyncCursor:
    """A cursor of sqlite3 whose statements and rows are awaited."""

    def __init__(self, connection: AsyncConnection, cursor: sqlite3.Cursor) -> None:
        self.connection = connection
        self._cursor = cursor

    async def execute(self, sql: str, parameters: Any = ()) -> AsyncCursor:
        """As in sqlite3."""
        await self.connection.aside(lambda: self._cursor.execute(sql, parameters))
        return self

    async def executemany(self, sql: str, parameters: Iterable[Any]) -> AsyncCursor:
        """As in sqlite3."""
        await self.connection.aside(lambda: self._cursor.executemany(sql, parameters))
        return self

    async def fetchone(self) -> Any:
        """As in sqlite3."""
        return await self.connection.aside(self._cursor.fetchone)

    async def fetchmany(self, size: int = 1) -> list[Any]:
        """As in sqlite3."""
        return await self.connection.aside(lambda: self._cursor.fetchmany(size))

    async def fetchall(self) -> list[Any]:
        """As in sqlite3."""
        return await self.connection.aside(self._cursor.fetchall)

    async def close(self) -> None:
        """As in sqlite3."""
        await self.connection.aside(self._cursor.close)

    @property
    def rowcount(self) -> int:
        """As in sqlite3."""
        return self._cursor.rowcount

    @property
    def lastrowid(self) -> int | None:
        """As in sqlite3."""
        return self._cursor.lastrowid

    @property
    def description(self) -> Any:
        """As in sqlite3."""
        return self._cursor.description

    def __aiter__(self) -> AsyncCursor:
        return self

    async def __anext__(self) -> Any:
        row = await self.fetchone()
        if row is None:
            raise StopAsyncIteration
        return row

    async def __aenter__(self) -> AsyncCursor:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncConnection:
    """What `run.connection` is in an async body: a sqlite3 connection whose statements are awaited."""

    def __init__(self, transaction: SqliteTransaction) -> None:
        self._transaction = transaction
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="duly-sqlite-body")
        self.was_used = False

    async def aside(self, act: Callable[[], T]) -> T:
        """Do it in the transaction's thread; one after the other, also when nobody waits any more."""
        self.was_used = True
        value = await asyncio.get_running_loop().run_in_executor(self._thread, act)
        if self._transaction.turn.is_held:
            holds_here(self._transaction.turn)
        return value

    def cursor(self) -> AsyncCursor:
        """As in sqlite3."""
        return AsyncCursor(self, self._transaction.connection.cursor())

    async def execute(self, sql: str, parameters: Any = ()) -> AsyncCursor:
        """As in sqlite3."""
        return await self.cursor().execute(sql, parameters)

    async def executemany(self, sql: str, parameters: Iterable[Any]) -> AsyncCursor:
        """As in sqlite3."""
        return await self.cursor().executemany(sql, parameters)

    async def commit(self) -> None:
        """Refused: Duly commits when the body has returned."""
        raise TransactionEnded(NOT_YOURS.format(word="connection.commit()"))

    async def rollback(self) -> None:
        """Refused: raise an exception to roll back, or use a SAVEPOINT for a part."""
        raise TransactionEnded(NOT_YOURS.format(word="connection.rollback()"))

    async def close(self) -> None:
        """Refused: it goes back to where it came from."""
        raise TransactionEnded(NOT_YOURS.format(word="connection.close()"))

    @property
    def row_factory(self) -> Any:
        """As in sqlite3."""
        return self._transaction.connection.row_factory

    @row_factory.setter
    def row_factory(self, factory: Any) -> None:
        self._transaction.connection.row_factory = factory

    @property
    def in_transaction(self) -> bool:
        """As in sqlite3."""
        return self._transaction.connection.in_transaction

    def drop(self) -> None:
        """Roll back without anybody waiting for it."""
        if self.was_used:
            self._thread.submit(self._transaction.roll_back)
            self._thread.submit(self._transaction.give_back)
        self.dismiss()

    def dismiss(self) -> None:
        """The thread may go."""
        self._thread.shutdown(wait=False)


class AsyncSqliteTransaction:
    """One run's transaction, awaited."""

    is_borrowed = False

    def __init__(self, transaction: SqliteTransaction) -> None:
        self._transaction = transaction
        self._is_over = False
        self.connection = AsyncConnection(transaction)

    @property
    def has_begun(self) -> bool:
        return self._transaction.has_begun

    @property
    def is_cut_off(self) -> bool:
        return self._transaction.is_cut_off

    @property
    def held(self) -> float:
        return self._transaction.held

    async def run(self, operation: Operation[T]) -> T:
        return await self.connection.aside(lambda: self._transaction.run(operation))

    async def finish(self, worker: str, settlement: Settlement) -> bool:
        finish = self._transaction.finish
        self._is_over = await self.connection.aside(lambda: finish(worker, settlement))
        return self._is_over

    async def settle(self, operation: Operation[T]) -> T:
        return await self.connection.aside(lambda: self._transaction.settle(operation))

    async def commit(self) -> None:
        await self.connection.aside(self._transaction.commit)

    async def roll_back(self) -> None:
        if self._is_over:
            return  # what is committed needs no trip to the thread and back
        self._transaction.abandon()  # a statement that still waits for its turn need not wait any longer
        await self.connection.aside(self._transaction.roll_back)

    async def give_back(self) -> None:
        if self.connection.was_used:
            await self.connection.aside(self._transaction.give_back)
        else:
            self._transaction.give_back()
        self.connection.dismiss()

    def abandon(self) -> None:
        self._transaction.abandon()

    def drop(self) -> None:
        self._transaction.abandon()
        self.connection.drop()
