"""A store on the session's server, and servers of a test's own to stop, starve and reconfigure."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.servers_redis import WAIVED, RedisServer, connected_to, namespace_of, private_server, shared_url

from duly.stores.redis import RedisStore
from duly.testing import VirtualClock

OpenServer = Callable[..., RedisServer]
OpenStore = Callable[..., RedisStore]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def open_server(tmp_path: Path) -> Generator[OpenServer]:
    """Starts a server with the options given."""
    with ExitStack() as stack:

        def start(*options: str) -> RedisServer:
            return stack.enter_context(private_server(tmp_path, *options))

        yield start


@pytest.fixture
def server(open_server: OpenServer) -> RedisServer:
    return open_server()


@pytest.fixture
def open_store() -> Generator[OpenStore]:
    """Makes a store for a URL and closes it at the end."""
    made: list[RedisStore] = []

    def make(url: str, **options: Any) -> RedisStore:
        store = RedisStore(f"{url}{'&' if '?' in url else '?'}{WAIVED}", **options)
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(tmp_path: Path, clock: VirtualClock) -> Generator[RedisStore]:
    """A store of its own on the session's server, under a clock that the test moves."""
    made = RedisStore(shared_url(), clock=clock, namespace=namespace_of(tmp_path))
    yield made
    made.close()


@pytest.fixture
def client(store: RedisStore) -> Generator[Any]:
    """A connection past the store, to look at its keys."""
    with connected_to(store.url) as made:
        yield made


@pytest.fixture
def keys(client: Any, tmp_path: Path) -> Callable[[], set[str]]:
    """The names of all keys of the store, without its prefix."""
    prefix = f"{{{namespace_of(tmp_path)}}}:"
    return lambda: {name.removeprefix(prefix) for name in client.scan_iter(f"{prefix}*", count=1000)}


@pytest.fixture
def server_store(server: RedisServer, open_store: OpenStore) -> RedisStore:
    """A store with a server of its own, whose counters nobody else moves."""
    return open_store(server.url)


@pytest.fixture
def server_client(server: RedisServer) -> Generator[Any]:
    with server.client() as made:
        yield made
