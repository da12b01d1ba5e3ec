"""Performing an operation on a connection that belongs to somebody else.

The job becomes visible if and only if the caller's transaction commits, so we never commit or roll back
what is theirs: our statements stand inside a savepoint, and leave no setting and nothing prepared behind.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeGuard, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from duly.errors import WrongConnection
from duly.stores.drive import Operation, Row
from duly.stores.postgres.attempt import Command
from duly.stores.postgres.operations.moment import MOMENT
from duly.stores.postgres.spelling import CLOCK, Spelling

T = TypeVar("T")

AnyConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

IDENTITY: Final = """
select current_database(), (extract(epoch from pg_postmaster_start_time()) * 1000000)::int8"""
"""Which database of which server, whatever way led there and whatever time zone is set there."""
ARRIVAL: Final = """
select {clock}, coalesce((select max(number) from {schema}.lane), 0), true,
    coalesce(
        (select json_build_array(stage, move, other, cursor) from {schema}.house),
        (select json_build_array('sealed', '', 'another store (a new transaction will tell which)', 0)
            from {schema}.seal where last_value > 1))"""
"""The sequence tells a transaction that reads an old snapshot of a notice it cannot see."""


def raw_connection(given: Any) -> AnyConnection:
    """The psycopg connection inside what a caller has in hand: Django's, SQLAlchemy's, or that itself."""
    found = given
    for _ in range(_DEPTH):
        if _is_raw(found):
            return found
        found = _inner(found)
    raise WrongConnection(
        f"{given!r} holds no connection of psycopg 3. Pass one of those, Django's connection, or "
        "SQLAlchemy's Session or Connection made with postgresql+psycopg://."
    )


def _is_raw(found: Any) -> TypeGuard[AnyConnection]:
    return isinstance(found, psycopg.Connection | psycopg.AsyncConnection)


def _inner(outer: Any) -> Any:
    if hasattr(outer, "ensure_connection"):  # Django connects at the first query
        outer.ensure_connection()
        return outer.connection
    if hasattr(outer, "sync_session"):  # SQLAlchemy's AsyncSession
        return outer.sync_session
    if hasattr(outer, "sync_connection"):  # SQLAlchemy's AsyncConnection
        return outer.sync_connection
    if hasattr(outer, "get_bind"):  # SQLAlchemy's Session
        return outer.connection()
    if hasattr(outer, "driver_connection"):  # SQLAlchemy's loan from its pool
        return outer.driver_connection
    if callable(begun := getattr(outer, "in_transaction", None)) and not begun():
        outer.begin()  # SQLAlchemy commits only what it knows to have begun
    return getattr(outer, "connection", None)


def conversation(
    connection: AnyConnection, operation: Operation[T], spell: Spelling
) -> Generator[Command, list[Row], T]:
    """The commands of an operation inside the caller's transaction, or as one where they commit each."""
    opening, closing, undoing = _frame(connection)
    yield Command(opening)
    try:
        value = yield from _performed(operation, spell)
    except BaseException:
        if connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            for text in undoing:
                yield Command(text)
        raise
    yield Command(closing)
    return value


def _frame(connection: AnyConnection) -> tuple[bytes, bytes, tuple[bytes, ...]]:
    status = connection.info.transaction_status
    if status is TransactionStatus.INERROR:
        raise WrongConnection(
            "The transaction on this connection has failed, and PostgreSQL takes nothing more in it. "
            "Roll it back first."
        )
    if status is TransactionStatus.IDLE and connection.autocommit:
        return b"begin", b"commit", (b"rollback",)
    return (
        b"savepoint duly_call",
        b"release savepoint duly_call",
        (b"rollback to savepoint duly_call", b"release savepoint duly_call"),
    )


def _performed(operation: Operation[T], spell: Spelling) -> Generator[Command, list[Row], T]:
    steps = operation.steps()
    rows: list[Row] | None = None
    while True:
        try:
            statement = next(steps) if rows is None else steps.send(rows)
        except StopIteration as stop:
            value: T = stop.value
            return value
        if statement is MOMENT:
            rows = yield Command(spell.script(spell.moment or ARRIVAL, clock=CLOCK))
        else:
            rows = yield Command(spell(statement.text), statement.parameters)


def perform(connection: psycopg.Connection[Any], command: Command) -> list[Row]:
    """Execute on a caller's connection."""
    with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(command.text, command.parameters, prepare=False)
        return cursor.fetchall() if cursor.description else []


async def aperform(connection: psycopg.AsyncConnection[Any], command: Command) -> list[Row]:
    """The same, awaited."""
    async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(command.text, command.parameters, prepare=False)
        return await cursor.fetchall() if cursor.description else []


def hold(raw: psycopg.Connection[Any], commands: Generator[Command, list[Row], T]) -> T:
    """Hold a conversation on a caller's connection; what goes wrong is told to it, so that it can undo."""
    try:
        command = next(commands)
        while True:
            try:
                rows = perform(raw, command)
            except Exception as error:
                command = commands.throw(error)
            else:
                command = commands.send(rows)
    except StopIteration as stop:
        value: T = stop.value
        return value


async def ahold(raw: psycopg.AsyncConnection[Any], commands: Generator[Command, list[Row], T]) -> T:
    """The same, awaited."""
    try:
        command = next(commands)
        while True:
            try:
                rows = await aperform(raw, command)
            except Exception as error:
                command = commands.throw(error)
            else:
                command = commands.send(rows)
    except StopIteration as stop:
        value: T = stop.value
        return value
