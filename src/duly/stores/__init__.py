"""Stores: where jobs live. One contract, one specification in memory, one package per database."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from duly.errors import UnknownStore

if TYPE_CHECKING:
    from duly.clock import Clock
    from duly.settings import Settings
    from duly.stores.contract import Store


def open_store(settings: Settings, clock: Clock) -> Store:
    """The store a URL names; its package is imported only now, so unused drivers cost nothing."""
    scheme = urlsplit(settings.url).scheme.partition("+")[0]
    match scheme:
        case "memory":
            from duly.stores.memory import MemoryStore

            return MemoryStore(settings.url, clock=clock)
        case "sqlite":
            from duly.stores.sqlite import SqliteStore

            # A beat that waits for the file must not outwait its lease.
            patience = min(timedelta(seconds=5), settings.lease / 4)
            return SqliteStore(settings.url, clock=clock, namespace=settings.namespace, patience=patience)
        case "postgresql" | "postgres":
            from duly.stores.postgres import PostgresStore

            return PostgresStore(settings.url, clock=clock, namespace=settings.namespace)
        case "redis" | "rediss" | "valkey" | "valkeys" | "unix":
            from duly.stores.redis import RedisStore

            return RedisStore(settings.url, clock=clock, namespace=settings.namespace)
        case _:
            raise UnknownStore(settings.url)
