"""Transactions out of the application's own hands: SQLAlchemy's engine or session maker, Django, any block.

All we ask for is a block that commits at its end and rolls back when an exception leaves it. It opens when
the body first takes run.connection; for Django, whose models need none in hand, before the body starts.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from datetime import timedelta
from importlib import import_module
from typing import Any, Final, NoReturn, TypeVar

from duly.errors import DefinitionError, TransactionEnded
from duly.stores.contract import Settlement, Store
from duly.stores.drive import Operation, Statement, Steps
from duly.stores.sqlite.caller import raw_connection
from duly.stores.sqlite.faults import is_busy
from duly.transactions.contract import UNSHIELDED, CommitUnknown, Conflict, CutOff, IdledOut, Shield
from duly.transactions.words import ENDED

T = TypeVar("T")

Block = Callable[[], Any]
"""Makes a context manager, plain or async, that yields a connection or session in a transaction."""

DJANGO: Final = "django:"
LIMITS: Final = "set local idle_in_transaction_session_timeout = {idle}; set local duly.run = '{mark}'"
WRITE_LOCK: Final = "delete from duly_worker where 0"
"""Django begins without it, and to a transaction that has read SQLite refuses it without waiting."""
SAVEPOINT: Final = "SAVEPOINT duly_run"
RELEASE: Final = "RELEASE duly_run"
MARK: Final = "select current_setting('duly.run', true)"
CONFLICTS: Final = ("40001", "40P01", "55P03")
GONE: Final = ("57P01", "57P02", "57P03")


class RolledBack(BaseException):
    """Leaves a block to make it roll back; nobody sees it."""


def block_of(given: Any) -> Block:
    """Engine, AsyncEngine, sessionmaker and async_sessionmaker have `begin`; else it is a block itself."""
    if isinstance(given, str):
        return _django(given)
    begin = getattr(given, "begin", None)
    found: Block | None = begin if callable(begin) else given if callable(given) else None
    if found is not None:
        return found
    raise DefinitionError(
        f"transactions={given!r} makes no transactions. Pass SQLAlchemy's Engine or sessionmaker (or their "
        "async twins), 'django:default', or a function that returns a context manager."
    )


def _django(name: str) -> Block:
    if not name.startswith(DJANGO):
        raise DefinitionError(f"transactions={name!r} is not known; the one name there is is 'django:ALIAS'.")
    return DjangoBlock(name.removeprefix(DJANGO) or "default")


class DjangoBlock:
    """`transaction.atomic(using=alias)`, which yields Django's connection."""

    is_ambient = True

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def __call__(self) -> AbstractContextManager[Any]:
        return _Atomic(self.alias)


class _Atomic(AbstractContextManager[Any]):
    def __init__(self, alias: str) -> None:
        database: Any = import_module("django.db")
        self._atomic = database.transaction.atomic(using=alias)
        self._connection = database.connections[alias]

    def __enter__(self) -> Any:
        self._connection.close_if_unusable_or_obsolete()
        self._atomic.__enter__()
        return self._connection

    def __exit__(self, *raised: Any) -> None:
        self._atomic.__exit__(*raised)


class Loan:
    """What threads and loops have in common."""

    held = 0.0
    is_borrowed = True

    def __init__(self, store: Store, run_id: str, lease: timedelta) -> None:
        self.store = store
        self.mark = run_id.replace("'", "").replace("\\", "")
        self.idle = max(1000, lease // timedelta(milliseconds=1))
        self.is_over = False
        self.has_begun = False
        self.is_cut_off = False
        self.connection: Any = None

    @property
    def opening(self) -> Operation[None]:
        """Said first: is this the store's database? On SQLite it takes the write lock."""
        limits = LIMITS.format(idle=self.idle, mark=self.mark).split("; ")

        def steps() -> Steps[None]:
            for part in limits if self._has_limits else []:
                yield Statement(part, None)
            if self._is_file:
                yield Statement(WRITE_LOCK)

        return Operation("begin a transaction", steps)

    def watched(self, operation: Operation[T]) -> Operation[T]:
        """The operation, if the transaction is still the one that was opened."""
        if not self._has_limits:
            return operation

        def steps() -> Steps[T]:
            marked = yield Statement(MARK, None)
            if not marked or marked[0][0] != self.mark:
                raise TransactionEnded(ENDED)
            return (yield from operation.steps())

        return Operation(operation.name, steps, operation.writes)

    def leave_mark(self) -> None:
        """SQLite has no settings to carry a mark: a savepoint does it, which ends with its transaction."""
        if self._is_file:
            raw_connection(self.connection).execute(SAVEPOINT).close()

    def check(self) -> None:
        """Is it still there?"""
        if self._is_file:
            try:
                raw_connection(self.connection).execute(RELEASE).close()
            except sqlite3.OperationalError as error:
                raise TransactionEnded(ENDED) from error
            self.leave_mark()  # there may be more to say

    @property
    def _is_file(self) -> bool:
        return self.store.url.startswith("sqlite")

    @property
    def _has_limits(self) -> bool:
        return self.store.url.startswith("postgres")

    def abandon(self) -> None:
        """It begins at once or not at all."""


class BorrowedTransaction(Loan):
    """A block of the application's, entered for one run."""

    def enter(self, block: AbstractContextManager[Any]) -> None:
        """Open it."""
        self._block = block
        self.connection = block.__enter__()
        self.has_begun = True
        try:
            self.store.run_on(self.connection, self.opening)
            self.leave_mark()
        except BaseException:
            self.roll_back()
            raise

    def run(self, operation: Operation[T]) -> T:
        return self.store.run_on(self.connection, operation)

    def finish(self, worker: str, settlement: Settlement) -> bool:
        return False

    def settle(self, operation: Operation[T]) -> T:
        self.check()
        try:
            return self.store.run_on(self.connection, self.watched(operation))
        except Exception as error:
            _told(error)

    def commit(self) -> None:
        self.is_over = True
        try:
            self._block.__exit__(None, None, None)
        except Exception as error:
            _committed(error)

    def roll_back(self) -> None:
        if not self.is_over:
            self.is_over = True
            error = RolledBack()
            with suppress(Exception, RolledBack):  # a connection that is gone has rolled back
                self._block.__exit__(RolledBack, error, None)

    def give_back(self) -> None:
        self.roll_back()


class AsyncBorrowedTransaction(Loan):
    """The same, awaited."""

    async def enter(self, block: AbstractAsyncContextManager[Any]) -> None:
        """Open it."""
        self._block = block
        self.connection = await block.__aenter__()
        self.has_begun = True
        try:
            await self.store.arun_on(self.connection, self.opening)
            self.leave_mark()
        except BaseException:
            await self.roll_back()
            raise

    async def run(self, operation: Operation[T]) -> T:
        return await self.store.arun_on(self.connection, operation)

    async def finish(self, worker: str, settlement: Settlement) -> bool:
        return False

    async def settle(self, operation: Operation[T]) -> T:
        self.check()
        try:
            return await self.store.arun_on(self.connection, self.watched(operation))
        except Exception as error:
            _told(error)

    async def commit(self) -> None:
        self.is_over = True
        try:
            await self._block.__aexit__(None, None, None)
        except Exception as error:
            _committed(error)

    async def roll_back(self) -> None:
        if not self.is_over:
            self.is_over = True
            error = RolledBack()
            with suppress(Exception, RolledBack):
                await self._block.__aexit__(RolledBack, error, None)

    async def give_back(self) -> None:
        await self.roll_back()

    def drop(self) -> None:
        """Its connection ends with the loop."""


class BorrowedSource:
    """Opens the application's blocks."""

    def __init__(self, store: Store, given: Any, lease: timedelta) -> None:
        self._store = store
        self._block = block_of(given)
        self._lease = lease
        self.is_ambient: bool = getattr(self._block, "is_ambient", False)

    def lend(self, run_id: str, shield: Shield = UNSHIELDED) -> BorrowedTransaction:
        """Enter a block."""
        block = self._block()
        if not hasattr(block, "__enter__"):
            raise DefinitionError(
                f"transactions= gives {block!r}, which must be awaited, and this task is a plain function: "
                "write `async def`, or pass the sync engine or session maker."
            )
        loan = BorrowedTransaction(self._store, run_id, self._lease)
        loan.enter(block)
        return loan

    async def alend(self, run_id: str) -> AsyncBorrowedTransaction:
        """Enter a block on this loop."""
        block = self._block()
        if not hasattr(block, "__aenter__"):
            raise DefinitionError(
                f"transactions= gives {block!r}, which cannot be awaited, and this task is async: write a "
                "plain `def`, or pass SQLAlchemy's AsyncEngine or async_sessionmaker."
            )
        loan = AsyncBorrowedTransaction(self._store, run_id, self._lease)
        await loan.enter(block)
        return loan

    def close(self) -> None:
        """What was lent is the application's."""


# --- what errors mean, through whatever wraps them ------------------------------------------------


def _origin(error: BaseException) -> BaseException:
    """The driver's own error inside SQLAlchemy's or Django's."""
    found = error
    while (inner := getattr(found, "orig", None) or found.__cause__) is not None:
        found = inner
    return found


def _told(error: BaseException) -> NoReturn:
    if getattr(_origin(error), "sqlstate", None) == "25P03":
        raise IdledOut(str(error).strip()) from error
    if _is_conflict(error):
        raise Conflict(str(error).strip()) from error
    if _is_gone(error):
        raise CutOff(str(error).strip()) from error
    raise error


def _committed(error: BaseException) -> NoReturn:
    if _is_conflict(error):
        raise Conflict(str(error).strip()) from error
    if _is_gone(error):
        raise CommitUnknown(str(error).strip()) from error
    raise error


def _is_conflict(error: BaseException) -> bool:
    origin = _origin(error)
    if isinstance(origin, sqlite3.Error):  # with a rollback journal a reader keeps the commit waiting
        return is_busy(origin)
    return getattr(origin, "sqlstate", None) in CONFLICTS


def _is_gone(error: BaseException) -> bool:
    origin = _origin(error)
    state = getattr(origin, "sqlstate", "")
    if state is None:
        return type(origin).__name__ in ("OperationalError", "Overdue")
    return str(state).startswith("08") or state in GONE
