"""The stores that must keep the contract: one line each, and every test in this folder runs on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.servers import postgres_schema, postgres_url
from tests.servers_redis import namespace_of, shared_url

from duly.stores.contract import Store
from duly.stores.memory import MemoryStore
from duly.stores.postgres import PostgresStore
from duly.stores.redis import RedisStore
from duly.stores.sqlite import SqliteStore
from duly.testing import VirtualClock

Maker = Callable[[Path, VirtualClock], Store]


def _memory(_folder: Path, clock: VirtualClock) -> Store:
    return MemoryStore(clock=clock)


def _sqlite(folder: Path, clock: VirtualClock) -> Store:
    return SqliteStore(f"sqlite:///{folder / 'duly.db'}", clock=clock)


def _redis(folder: Path, clock: VirtualClock) -> Store:
    return RedisStore(shared_url(), clock=clock, namespace=namespace_of(folder))


def _postgres(folder: Path, clock: VirtualClock) -> Store:
    return PostgresStore(postgres_url(), clock=clock, namespace=postgres_schema(folder))


STORES: Final[dict[str, Maker]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "postgres": _postgres,
    "redis": _redis,
}
