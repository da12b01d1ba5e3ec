"""Performing an operation in a transaction that is open, blocking or awaited."""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from duly.errors import TransactionEnded
from duly.stores.drive import Operation, Row, Statement
from duly.stores.postgres.caller import AnyConnection, AsyncCursor, Cursor

T = TypeVar("T")


def drive(raw: psycopg.Connection[Any], operation: Operation[T]) -> T:
    """Answer each statement that an operation asks for."""
    refuse_if_ended(raw)
    steps = operation.steps()
    try:
        statement = next(steps)
        while True:
            statement = steps.send(perform(raw, statement))
    except StopIteration as stop:
        value: T = stop.value
        return value


async def adrive(raw: psycopg.AsyncConnection[Any], operation: Operation[T]) -> T:
    """The same, awaited."""
    refuse_if_ended(raw)
    steps = operation.steps()
    try:
        statement = next(steps)
        while True:
            statement = steps.send(await aperform(raw, statement))
    except StopIteration as stop:
        value: T = stop.value
        return value


def perform(raw: psycopg.Connection[Any], statement: Statement) -> list[Row]:
    """Execute. Nothing is prepared: a pooler may give the next transaction another connection."""
    with Cursor(raw, row_factory=tuple_row) as cursor:
        cursor.execute(statement.text.encode(), statement.parameters, prepare=False)
        return cursor.fetchall() if cursor.description else []


async def aperform(raw: psycopg.AsyncConnection[Any], statement: Statement) -> list[Row]:
    """The same, awaited."""
    async with AsyncCursor(raw, row_factory=tuple_row) as cursor:
        await cursor.execute(statement.text.encode(), statement.parameters, prepare=False)
        return await cursor.fetchall() if cursor.description else []


def refuse_if_ended(raw: AnyConnection) -> None:
    """A body that ended the transaction by hand has committed its effects without their completion."""
    if raw.info.transaction_status is TransactionStatus.IDLE:
        raise TransactionEnded(
            "The transaction on this connection was ended by a COMMIT or ROLLBACK of the body. "
            "Leave that to the guard: return to commit, raise to roll back."
        )
