"""Bodies whose transaction is SQLAlchemy's: an Engine gives them a Connection, a sessionmaker a Session.

SQLAlchemy is never imported unless somebody hands us something of it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from duly.errors import DefinitionError, StoreUnavailable, TransactionEnded
from duly.ledger.database import InThread
from duly.ledger.threads import in_thread
from duly.stores.drive import Operation

T = TypeVar("T")

Perform = Callable[[Any, Operation[Any]], Any]
"""Performs an operation on whatever holds a connection, inside the transaction that is open."""


class Place(NamedTuple):
    """What was handed to the ledger, understood."""

    engine: Any
    """The blocking engine, or the one inside an AsyncEngine."""
    make: Callable[[], Any]
    """A new Connection or Session, blocking or to be awaited."""
    is_async: bool
    gives_sessions: bool


def understood(given: Any) -> Place | None:
    """An Engine, AsyncEngine, sessionmaker or async_sessionmaker; None for anything else."""
    if hasattr(given, "connect") and hasattr(given, "dialect"):
        is_async = hasattr(given, "sync_engine")
        return Place(given.sync_engine if is_async else given, given.connect, is_async, gives_sessions=False)
    bound = getattr(given, "kw", {}).get("bind") if callable(given) else None
    if bound is None:
        return None
    is_async = hasattr(bound, "sync_engine")
    return Place(bound.sync_engine if is_async else bound, given, is_async, gives_sessions=True)


class Permit:
    """Refuses every commit but the guard's own."""

    def __init__(self) -> None:
        self._is_given = False

    def give(self) -> None:
        """From now on the transaction may be committed."""
        self._is_given = True

    def watch(self, inner: Any, *, is_session: bool) -> None:
        """Be asked before each commit of a blocking Connection or Session."""
        from sqlalchemy import event

        listen: Any = event.listen
        if is_session:
            listen(inner, "before_commit", self._check_session)
        else:
            listen(inner, "commit", self._check)

    def _check_session(self, session: Any) -> None:
        if not session.in_nested_transaction():  # the end of a savepoint is announced in the same way
            self._check(session)

    def _check(self, _: Any) -> None:
        if not self._is_given:
            raise TransactionEnded(
                "commit() would part the effects from their completion. Leave that to the guard: "
                "return to commit, raise to roll back, begin_nested() for a part."
            )


class AlchemyBodies:
    """Transactions for blocking bodies; those on a loop get them too, and block it."""

    is_ambient = False

    def __init__(self, place: Place, perform: Perform, begin: Callable[[Any, timedelta], None]) -> None:
        self._place = place
        self._perform = perform
        self._begin = begin

    def begin(self, limit: timedelta) -> AlchemyTransaction:
        """A Connection or Session in a transaction."""
        made = AlchemyTransaction(self._place, self._perform)
        try:
            self._begin(made.connection, limit)
        except BaseException:
            made.rollback()
            raise
        return made

    async def abegin(self, limit: timedelta) -> InThread:
        """The same, for a body on a loop."""
        return InThread(await in_thread(lambda: self.begin(limit), lambda made: made.rollback()))


class AlchemyTransaction:
    """One body's transaction."""

    def __init__(self, place: Place, perform: Perform) -> None:
        self._perform = perform
        self._permit = Permit()
        self.connection: Any = place.make()
        self._permit.watch(self.connection, is_session=place.gives_sessions)
        self._block = self.connection.begin()

    def perform(self, operation: Operation[T]) -> T:
        """As a part of the transaction."""
        value: T = self._perform(self.connection, operation)
        return value

    def commit(self) -> None:
        """Effects and completion, together."""
        self._permit.give()
        try:
            self._block.commit()
        finally:
            self.connection.close()

    def rollback(self) -> None:
        """Neither. After a commit that was refused SQLAlchemy would pool the connection as it is."""
        try:
            if self._block.is_active:
                self._block.rollback()
            else:
                self.connection.invalidate()
        finally:
            self.connection.close()


class AsyncAlchemyBodies:
    """Transactions for bodies on a loop, with an AsyncEngine or an async_sessionmaker."""

    is_ambient = False

    def __init__(self, place: Place, limit_idleness: Callable[[timedelta], bytes]) -> None:
        self._place = place
        self._limit_idleness = limit_idleness

    def begin(self, limit: timedelta) -> Any:
        """Not to be had."""
        raise DefinitionError(
            f"A blocking function cannot await the transactions of {self._place.make!r}. "
            "Make the function async, or give the ledger a blocking Engine or sessionmaker."
        )

    async def abegin(self, limit: timedelta) -> AsyncAlchemyTransaction:
        """An AsyncConnection or AsyncSession in a transaction."""
        made = AsyncAlchemyTransaction(self._place)
        try:
            await made.begin(self._limit_idleness(limit))
        except BaseException:
            await made.rollback()
            raise
        return made


class AsyncAlchemyTransaction:
    """One body's transaction on a loop."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._permit = Permit()
        self._block: Any = None
        self.connection: Any = place.make()

    async def begin(self, saying: bytes) -> None:
        """Connect, begin, and say what holds for this transaction."""
        from duly.ledger.postgres.body import refuse_autocommit

        if self._place.gives_sessions:
            self._permit.watch(self.connection.sync_session, is_session=True)
        else:
            await self.connection.start()
            self._permit.watch(self.connection.sync_connection, is_session=False)
        self._block = await self.connection.begin()
        raw = await self._raw()
        refuse_autocommit(raw)
        await raw.execute(saying)

    async def _raw(self) -> Any:
        from duly.stores.postgres.caller import raw_connection

        if self._place.gives_sessions:  # which connect at the first use, and that must be awaited
            return raw_connection(await self.connection.connection())
        return raw_connection(self.connection)

    async def perform(self, operation: Operation[T]) -> T:
        """As a part of the transaction."""
        from duly.ledger.postgres.talk import adrive

        return await adrive(await self._raw(), operation)

    async def commit(self) -> None:
        """Effects and completion, together."""
        self._permit.give()
        try:
            await self._block.commit()
        finally:
            await self.connection.close()

    async def rollback(self) -> None:
        """Neither."""
        try:
            if self._block is not None and self._block.is_active:
                await self._block.rollback()
            elif self._block is not None:
                await self.connection.invalidate()
        finally:
            await self.connection.close()


class EngineConnections:
    """Connections for short operations, from the engine's own pool."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    @contextmanager
    def lent(self) -> Generator[Any, None, None]:
        """One connection, given back as it was."""
        fairy = self._checked_out()
        try:
            yield fairy.driver_connection
        except BaseException:
            with suppress(Exception):  # whatever happened, it is not lent again
                fairy.invalidate()
            raise
        finally:
            with suppress(Exception):
                fairy.close()

    def _checked_out(self) -> Any:
        from sqlalchemy.exc import TimeoutError as NoneLeft

        try:
            return self._engine.raw_connection()
        except NoneLeft as error:
            raise StoreUnavailable(
                f"All connections of {self._engine!r} are in use: {error}. A guarded body has one, and the "
                "guard needs another meanwhile: raise pool_size or max_overflow."
            ) from error

    def clear(self) -> None:
        """One was cut off, and the others are likely to be dead too. What is checked out is not touched."""
        self._engine.dispose()

    def close(self) -> None:
        """The pool is the application's."""
