"""Exactly-once: the transaction in which a body's effects and its run's completion commit together."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from duly.errors import DefinitionError
from duly.stores.contract import Store
from duly.transactions.contract import AsyncTransaction, Source, Transaction

__all__ = ["AsyncTransaction", "Source", "Transaction", "check_store", "source_for"]

SCHEMES: Final = ("sqlite", "postgresql", "postgres")
PRETENDED: Final = "memory://virtual"
"""The store of a test, which pretends."""


def check_store(url: str, task: str) -> None:
    """A promise that the store cannot keep is refused where it is asked for."""
    scheme = urlsplit(url).scheme.partition("+")[0]
    if scheme not in SCHEMES and url != PRETENDED:
        raise DefinitionError(
            f"Task {task}: delivery='exactly_once' needs the jobs in the database of their effects, "
            f"sqlite:/// or postgresql://, and {scheme}:// is none. For effects in another database "
            "decorate the function with duly.exactly_once(ledger=…) instead."
        )


def module_for(url: str) -> str:
    """What a process imports to have transactions in this store: a driver takes its time."""
    return "duly.transactions.sqlite" if url.startswith("sqlite") else "duly.transactions.postgres"


def source_for(store: Store, given: Any, lease: timedelta) -> Source:
    """Where the bodies of this process get their transactions: the application's own, or ours."""
    if given is not None:
        from duly.transactions.borrowed import BorrowedSource

        return BorrowedSource(store, given, lease)
    if store.url.startswith("sqlite"):
        return _of_sqlite(store)
    return _of_postgres(store, lease)


def _of_sqlite(store: Store) -> Source:
    from duly.stores.sqlite import SqliteStore
    from duly.transactions.sqlite import SqliteSource

    assert isinstance(store, SqliteStore)
    return SqliteSource(store)


def _of_postgres(store: Store, lease: timedelta) -> Source:
    from duly.stores.postgres import PostgresStore
    from duly.transactions.postgres import PostgresSource

    assert isinstance(store, PostgresStore)
    return PostgresSource(store, lease)
