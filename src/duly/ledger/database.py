"""What a ledger asks of the database it lives in. Nothing but these touches a connection.

Short operations have a transaction of their own. A body has another, which the ledger opens for it when
it first asks, and ends: the completion is the last thing said in it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from duly.ledger.dialect import Dialect
from duly.ledger.threads import in_thread
from duly.stores.drive import Operation

T = TypeVar("T")


class Transaction(Protocol):
    """A body's transaction."""

    @property
    def connection(self) -> Any:
        """What the body gets: a driver's connection, or an ORM's connection or session."""
        ...

    def perform(self, operation: Operation[T]) -> T: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...


class AsyncTransaction(Protocol):
    """A body's transaction on an event loop."""

    @property
    def connection(self) -> Any: ...
    async def perform(self, operation: Operation[T]) -> T: ...
    async def commit(self) -> None: ...
    async def rollback(self) -> None: ...


class Bodies(Protocol):
    """Where the transactions of bodies come from. An idle one ends after `limit`, where the database can."""

    @property
    def is_ambient(self) -> bool:
        """The body's statements find the transaction by themselves, so it is open before they come."""
        ...

    def begin(self, limit: timedelta) -> Transaction: ...
    async def abegin(self, limit: timedelta) -> AsyncTransaction: ...


class Database(Protocol):
    """The user's database."""

    @property
    def dialect(self) -> Dialect: ...
    @property
    def shown(self) -> str:
        """Where it is, without its password."""
        ...

    @property
    def bodies(self) -> Bodies: ...
    def prepare(self) -> None:
        """Find out what can be found out before the first statement; may make a file."""
        ...

    def run(self, operation: Operation[T], patience: timedelta | None = None) -> T:
        """Perform in a short transaction of its own."""
        ...

    def run_on(self, connection: Any, operation: Operation[T]) -> T:
        """Perform inside the caller's transaction; it commits or vanishes with it."""
        ...

    async def arun_on(self, connection: Any, operation: Operation[T]) -> T: ...
    def once_committed(self, act: Callable[[], object]) -> None:
        """Do this when what `run` has written is there for others: at once, unless it joined something."""
        ...

    def tend(self) -> None:
        """What a file needs from time to time."""
        ...

    def close(self) -> None: ...


class InThread:
    """A blocking transaction for a body on an event loop: the loop does not wait for its commit."""

    def __init__(self, inner: Transaction) -> None:
        self._inner = inner

    @property
    def connection(self) -> Any:
        return self._inner.connection

    async def perform(self, operation: Operation[T]) -> T:
        return await in_thread(lambda: self._inner.perform(operation))

    async def commit(self) -> None:
        await in_thread(self._inner.commit)

    async def rollback(self) -> None:
        await in_thread(self._inner.rollback)
