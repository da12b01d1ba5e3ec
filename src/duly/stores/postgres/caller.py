"""Performing an operation on a connection that belongs to somebody else.

The job becomes visible if and only if the caller's transaction commits, so we never commit or roll back
what is theirs: our statements stand inside a savepoint, and leave no setting and nothing prepared behind.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeGuard, TypeVar

import psycopg
from psycopg import errors
from psycopg.adapt import AdaptersMap
from psycopg.postgres import register_default_adapters, types
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from duly.errors import DulyError, WrongConnection
from duly.stores.callers import described, innermost
from duly.stores.drive import Operation, Row
from duly.stores.postgres.address import Address
from duly.stores.postgres.attempt import Command
from duly.stores.postgres.faults import explained
from duly.stores.postgres.operations.moment import MOMENT
from duly.stores.postgres.spelling import CLOCK, Spelling

T = TypeVar("T")

AnyConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

IDENTITY: Final = """
select current_database(), (extract(epoch from pg_postmaster_start_time()) * 1000000)::int8"""
"""Which database of which server, whatever way led there and whatever time zone is set there."""
ARRIVAL: Final = """
select {clock}, coalesce((select max(number) from {schema}.lane), 0),
    current_setting('transaction_isolation') <> 'read committed',
    (select json_build_array(max(oldest_code), coalesce(
        (select json_build_array(stage, move, other, cursor) from {schema}.house),
        (select json_build_array('sealed', '', 'another store (a new transaction will tell which)', 0)
            from {schema}.seal where last_value > 1))) from {schema}.migration)"""
"""The sequence tells a transaction that reads an old snapshot of a notice it cannot see."""


def raw_connection(given: Any) -> AnyConnection:
    """The psycopg connection inside what a caller has in hand: Django's, SQLAlchemy's, or that itself."""
    raw = innermost(given, _is_raw)
    if raw is None:
        raise WrongConnection(
            f"{described(given)} holds no connection of psycopg 3. Pass one of those, Django's connection, "
            "or SQLAlchemy's Session or Connection made with postgresql+psycopg://."
        )
    return raw


def _is_raw(found: Any) -> TypeGuard[AnyConnection]:
    return isinstance(found, psycopg.Connection | psycopg.AsyncConnection)


def check_state(connection: AnyConnection) -> None:
    """Refuse a connection on which no statement would do, in words that say what to do about it."""
    if connection.closed:
        raise WrongConnection("This connection is closed. Pass one that is open.")
    status = connection.info.transaction_status
    if status is TransactionStatus.INERROR:
        raise WrongConnection(
            "The transaction on this connection has failed, and PostgreSQL takes nothing more in it. "
            "Roll it back first, or to a savepoint from before the error."
        )
    if status is TransactionStatus.ACTIVE:
        raise WrongConnection(
            "This connection is in the middle of another statement (COPY or stream()). Finish that first."
        )
    if connection.info.encoding != "utf-8":
        raise WrongConnection(
            f"This connection's client_encoding is {connection.info.parameter_status('client_encoding')}, "
            "which cannot carry every text. Set it to UTF8."
        )


def is_in_pipeline(connection: AnyConnection) -> bool:
    """Whether statements are sent ahead of their answers, so that nobody knows yet how things stand."""
    return not connection.closed and connection.pgconn.pipeline_status != PipelineStatus.OFF


def has_committed(connection: AnyConnection) -> bool:
    """Whether nothing is left open: what was written commits statement by statement."""
    return connection.info.transaction_status is TransactionStatus.IDLE


def told(error: psycopg.Error | UnicodeEncodeError, address: Address, doing: str) -> DulyError:
    """What went wrong, where it is the caller's transaction and not the store that is to blame."""
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return WrongConnection(
            "The transaction on this connection is read-only, and a job must be written. "
            "Begin one that may write, on the primary server."
        )
    return explained(error, address, doing)


def conversation(
    connection: AnyConnection, operation: Operation[T], spell: Spelling
) -> Generator[Command, list[Row], T]:
    """The commands of an operation inside the caller's transaction, or as one where they commit each."""
    opening, closing, undoing = _frame(connection)
    yield Command(opening)
    try:
        value = yield from _performed(operation, spell)
    except GeneratorExit:
        raise
    except BaseException:  # an await that was cancelled too: the caller may go on with the transaction
        if connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            for text in undoing:
                yield Command(text)
        raise
    yield Command(closing)
    return value


def _frame(connection: AnyConnection) -> tuple[bytes, bytes, tuple[bytes, ...]]:
    if has_committed(connection) and connection.autocommit:
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


def _unspoilt() -> AdaptersMap:
    adapters = AdaptersMap(types=types)
    register_default_adapters(adapters)
    return adapters


_ADAPTERS: Final = _unspoilt()
"""As the driver ships them: an application may have taught its connections other types, or all of them."""


class Cursor(psycopg.Cursor[Row]):
    """A cursor that reads and writes values our way on anybody's connection."""

    @property
    def adapters(self) -> AdaptersMap:
        return _ADAPTERS


class AsyncCursor(psycopg.AsyncCursor[Row]):
    """The same for an event loop."""

    @property
    def adapters(self) -> AdaptersMap:
        return _ADAPTERS


def catch_up(connection: psycopg.Connection[Any]) -> None:
    """Where statements are sent ahead, wait for the answers. What the caller's own brought up is raised."""
    if is_in_pipeline(connection):
        with connection.pipeline():
            pass


async def acatch_up(connection: psycopg.AsyncConnection[Any]) -> None:
    """The same, awaited."""
    if is_in_pipeline(connection):
        async with connection.pipeline():
            pass


def perform(connection: psycopg.Connection[Any], command: Command) -> list[Row]:
    """Execute on a caller's connection."""
    with Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(command.text, command.parameters, prepare=False)
        catch_up(connection)
        return cursor.fetchall() if cursor.description else []


async def aperform(connection: psycopg.AsyncConnection[Any], command: Command) -> list[Row]:
    """The same, awaited."""
    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(command.text, command.parameters, prepare=False)
        await acatch_up(connection)
        return await cursor.fetchall() if cursor.description else []


def hold(raw: psycopg.Connection[Any], commands: Generator[Command, list[Row], T]) -> T:
    """Hold a conversation on a caller's connection; what goes wrong is told to it, so that it can undo."""
    try:
        command = next(commands)
        while True:
            try:
                rows = perform(raw, command)
            except BaseException as error:
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
            except BaseException as error:
                command = commands.throw(error)
            else:
                command = commands.send(rows)
    except StopIteration as stop:
        value: T = stop.value
        return value
