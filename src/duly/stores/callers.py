"""What callers hand over as `connection=`: a driver's connection, or what a framework keeps around one.

Each store wants the driver's own connection, and knows it when it sees it; the way there is the same for all.
No framework is imported: who passes an object of one has imported it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeGuard, TypeVar, cast

from duly.errors import WrongConnection
from duly.urls import masked

T = TypeVar("T")
C = TypeVar("C")

_DEPTH: Final = 7
"""Of the deepest nest: a registry, a session, its connection, the pool's loan, the driver's own."""


class OpenConnection(Protocol):
    """Something whose transaction a request can join: the connection of a driver or a framework.

    Which of them a store accepts is for the store to say; an engine, a pool or a URL is none.
    """

    def commit(self) -> Any: ...
    def rollback(self) -> Any: ...


def innermost(given: Any, is_wanted: Callable[[Any], TypeGuard[C]]) -> C | None:
    """The driver's connection inside what a caller has in hand, or None where there is no such thing."""
    found = given
    for _ in range(_DEPTH):
        if is_wanted(found):
            return found
        found = _inner(found)
    return None


async def connected(given: Any) -> Any:
    """A session of SQLAlchemy connects when first needed; an async one must be awaited meanwhile."""
    given = unregistered(given)
    if hasattr(given, "sync_session"):
        await given.connection()
    return given


def unregistered(given: Any) -> Any:
    """The session of this thread or task, where a caller has the registry of them all in hand."""
    return given() if hasattr(given, "registry") and callable(given) else given


def synchronous(given: Any) -> Any:
    """The plain half of an async object of SQLAlchemy; anything else is that itself."""
    given = unregistered(given)
    return getattr(given, "sync_session", None) or getattr(given, "sync_connection", None) or given


def is_djangos(given: Any) -> bool:
    """Whether this is a connection of Django."""
    return hasattr(given, "ensure_connection")


def is_async(given: Any) -> bool:
    """Whether this is an async object of SQLAlchemy, which cannot be looked into without being awaited."""
    return synchronous(given) is not unregistered(given)


def must_be_awaited(given: Any) -> WrongConnection:
    """A blocking call was given a connection of an event loop."""
    return WrongConnection(f"{given!r} must be awaited: use the async twin of this call.")


def awaited(coroutine: Coroutine[Any, Any, T], given: Any) -> T:
    """Wait, inside SQLAlchemy's `run_sync`, for what plain code could not wait for elsewhere."""
    from sqlalchemy.exc import MissingGreenlet
    from sqlalchemy.util import await_only

    try:
        return await_only(coroutine)
    except MissingGreenlet:
        coroutine.close()
        raise must_be_awaited(given) from None


def described(given: Any) -> str:
    """What it is that was given, for an error: its type says more than its address in memory."""
    kind = cast("type[object]", type(given))
    return f"connection={masked(repr(given))} ({kind.__module__}.{kind.__qualname__})"


def _inner(outer: Any) -> Any:
    outer = unregistered(outer)
    if is_djangos(outer):
        return _of_django(outer)
    if (plain := synchronous(outer)) is not outer:
        return plain
    if hasattr(outer, "get_bind"):  # SQLAlchemy's Session
        return outer.connection()
    if hasattr(outer, "driver_connection"):  # SQLAlchemy's loan from its pool
        return outer.driver_connection
    if callable(begun := getattr(outer, "in_transaction", None)) and not begun():
        outer.begin()  # SQLAlchemy commits only what it knows to have begun
    return getattr(outer, "connection", None)


def _of_django(connection: Any) -> Any:
    if getattr(connection, "needs_rollback", False):
        raise WrongConnection(
            "An error inside this atomic block has made Django roll it back at its end, and a job would go "
            "with it. Enqueue after the block, or catch the error around an atomic block of its own."
        )
    connection.ensure_connection()  # Django connects at the first query
    return connection.connection
