"""What the worker asks of a body's transaction, whoever made it.

A source lends one transaction per run: on connections of its own, or out of the user's own engine, session
maker or `atomic`. Nobody but the worker ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from duly.stores.contract import Settlement
from duly.stores.drive import Operation

T = TypeVar("T")


class CommitUnknown(Exception):
    """COMMIT was sent and its answer lost: only a look at the store can tell."""


class Conflict(Exception):
    """Somebody else's transaction came first, and ours was rolled back: nothing is wrong with the body."""


class CutOff(Exception):
    """The connection broke before COMMIT was sent: the server has rolled back."""


class IdledOut(Exception):
    """The server ended the transaction because nothing was heard in it for a whole lease."""


class Shield(Protocol):
    """Keeps interrupts out of what must not be torn apart. What waits under it must look for them itself."""

    def __call__(self, act: Callable[[], None]) -> None:
        """Do it; an interrupt that comes meanwhile is raised afterwards."""
        ...

    @property
    def is_struck(self) -> bool:
        """An interrupt waits for the end of what is shielded."""
        ...


class Unshielded:
    """Where nobody interrupts."""

    is_struck = False

    def __call__(self, act: Callable[[], None]) -> None:
        """Do it."""
        act()


UNSHIELDED: Final = Unshielded()


class Transaction(Protocol):
    """The transaction of one run in a thread."""

    @property
    def connection(self) -> Any:
        """What the body works on."""
        ...

    @property
    def has_begun(self) -> bool:
        """The body has made its first statement."""
        ...

    @property
    def is_cut_off(self) -> bool:
        """The connection is lost."""
        ...

    @property
    def held(self) -> float:
        """Seconds for which it has kept everybody else from writing to the store; 0 where it does not."""
        ...

    @property
    def is_borrowed(self) -> bool:
        """The application's own block ends it, so whether it has committed must be looked up."""
        ...

    def run(self, operation: Operation[T]) -> T:
        """Perform inside it, opening it if need be; what fails is undone by itself."""
        ...

    def finish(self, worker: str, settlement: Settlement) -> bool:
        """Settle and commit at once. False where that cannot be: nothing was done, go step by step."""
        ...

    def settle(self, operation: Operation[T]) -> T:
        """The last words before `commit`. Raises TransactionEnded if the body has ended or broken it."""
        ...

    def commit(self) -> None:
        """Raises CommitUnknown, Conflict, or what the database had against it; then nothing was kept."""
        ...

    def roll_back(self) -> None:
        """Undo everything. Never raises: a connection that is gone has rolled back."""
        ...

    def give_back(self) -> None:
        """It is over, or never began: somebody else may have the connection."""
        ...

    def abandon(self) -> None:
        """Told from another thread: whoever waits for this transaction to begin need not wait any longer."""
        ...


class AsyncTransaction(Protocol):
    """The same on an event loop."""

    @property
    def connection(self) -> Any: ...
    @property
    def has_begun(self) -> bool: ...
    @property
    def is_cut_off(self) -> bool: ...
    @property
    def held(self) -> float: ...
    @property
    def is_borrowed(self) -> bool: ...
    async def run(self, operation: Operation[T]) -> T: ...
    async def finish(self, worker: str, settlement: Settlement) -> bool: ...
    async def settle(self, operation: Operation[T]) -> T: ...
    async def commit(self) -> None: ...
    async def roll_back(self) -> None: ...
    async def give_back(self) -> None: ...
    def abandon(self) -> None: ...
    def drop(self) -> None:
        """The loop goes down, and nothing can be awaited: let the database roll back by itself."""
        ...


class Source(Protocol):
    """Lends transactions to the runs of one process."""

    @property
    def is_ambient(self) -> bool:
        """The body's statements find the transaction by themselves, so it is open before they come."""
        ...

    def lend(self, run_id: str, shield: Shield = ...) -> Transaction: ...
    async def alend(self, run_id: str) -> AsyncTransaction: ...
    def close(self) -> None:
        """Close what is not lent."""
        ...
