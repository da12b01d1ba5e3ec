"""An application on a store that shares its database with the users' tables."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
from tests.adapters.callers.arrange import Shop
from tests.adapters.callers.kinds import ASYNC_KINDS, KINDS, AsyncUser, User, file_of
from tests.servers import PostgresServer, postgres_schema, postgres_url

OpenShop = Callable[[str], Shop]


@pytest.fixture
def open_shop(tmp_path: Path) -> Generator[OpenShop, None, None]:
    shops: list[Shop] = []

    def open_one(store: str) -> Shop:
        shops.append(_postgres(tmp_path) if store == "postgres" else _sqlite(tmp_path))
        return shops[-1]

    yield open_one
    for shop in shops:
        shop.close()


def _sqlite(folder: Path) -> Shop:
    url = f"sqlite:///{folder / 'shop.db'}"
    with closing(sqlite3.connect(file_of(url))) as connection:
        connection.execute("create table if not exists orders (id integer)")
    return Shop(url, url, "duly")


def _postgres(folder: Path) -> Shop:
    schema = postgres_schema(folder)
    theirs = f"{schema}_theirs"
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"create schema if not exists {theirs}".encode())
        connection.execute(f"create table if not exists {theirs}.orders (id int)".encode())
        connection.execute(f"delete from {theirs}.orders".encode())
    return Shop(postgres_url(), f"{postgres_url()}&options=-csearch_path%3D{theirs}", schema)


@pytest.fixture
def postgres(open_shop: OpenShop) -> Shop:
    return open_shop("postgres")


@pytest.fixture
def sqlite(open_shop: OpenShop) -> Shop:
    return open_shop("sqlite")


@pytest.fixture(params=list(KINDS))
def pair(request: pytest.FixtureRequest, open_shop: OpenShop) -> Generator[tuple[Shop, User], None, None]:
    """A shop, and a user of its database with a connection of every kind."""
    store, opened = KINDS[request.param]
    shop = open_shop(store)
    with opened(shop.users_url) as user:
        yield shop, user


@pytest_asyncio.fixture(params=list(ASYNC_KINDS))
async def async_pair(
    request: pytest.FixtureRequest, postgres: Shop
) -> AsyncGenerator[tuple[Shop, AsyncUser], None]:
    async with ASYNC_KINDS[request.param](postgres.users_url) as user:
        yield postgres, user


@pytest.fixture(scope="module")
def own_server() -> Generator[PostgresServer, None, None]:
    """A server with settings of its own: two-phase commit is off by default."""
    folder = Path(tempfile.mkdtemp(prefix="duly-own-"))
    server = PostgresServer(folder)
    server.create()
    (server.cluster / "postgresql.auto.conf").write_text("max_prepared_transactions = 4\n")
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture
def own_postgres(own_server: PostgresServer) -> Generator[Shop, None, None]:
    shop = Shop(own_server.url, own_server.url, "duly")
    yield shop
    shop.close()
