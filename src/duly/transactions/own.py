"""Transactions that a body opened itself, for run.complete: is there one, and which connection is it on?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.errors import WrongConnection
from duly.stores.callers import connected
from duly.stores.contract import Store
from duly.transactions.words import BY_ITSELF

if TYPE_CHECKING:
    import sqlite3


def raw_of(store: Store, given: Any) -> Any:
    """The driver's own connection inside whatever the body has in hand; the thing itself if there is none."""
    try:
        return _found(store, given)
    except WrongConnection:
        return given


def _found(store: Store, given: Any) -> Any:
    if store.url.startswith("sqlite"):
        from duly.stores.sqlite.caller import raw_connection as of_sqlite

        return of_sqlite(given)
    from duly.stores.postgres.caller import raw_connection as of_postgres

    return of_postgres(given)


def check_tied(store: Store, given: Any) -> None:
    """Refuse a connection that would commit a completion by itself, apart from every effect."""
    import sqlite3  # a megabyte, which a worker on a server has no use for

    raw = raw_of(store, given)
    commits = _sqlite_commits(raw) if isinstance(raw, sqlite3.Connection) else _postgres_commits(raw)
    if commits:
        raise WrongConnection(BY_ITSELF)


async def acheck_tied(store: Store, given: Any) -> None:
    """The same, where finding it out may have to be awaited."""
    check_tied(store, await connected(given))


def _sqlite_commits(raw: sqlite3.Connection) -> bool:
    import sqlite3

    try:
        if raw.in_transaction:
            return False
    except sqlite3.ProgrammingError:  # closed, or of another thread: said where it is used
        return False
    autocommit = getattr(raw, "autocommit", -1)  # new in Python 3.12; -1 means that isolation_level decides
    return autocommit is True or (autocommit == -1 and raw.isolation_level is None)


def _postgres_commits(raw: Any) -> bool:
    """By name, since another driver's connection is refused where its operations are performed."""
    status = getattr(getattr(raw, "info", None), "transaction_status", None)
    return getattr(raw, "autocommit", False) is True and getattr(status, "name", "") == "IDLE"
