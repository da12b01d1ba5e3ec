"""What is no connection to the store's database is refused by name, with what to pass instead."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import NullPool
from tests.adapters.callers.arrange import Shop
from tests.adapters.callers.kinds import alchemy_url, engine_on
from tests.servers import PostgresServer

from duly.errors import WrongConnection


@pytest.fixture
def another_database(postgres: Shop) -> Generator[str, None, None]:
    name = f"elsewhere_{os.getpid()}"
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        admin.execute(f"create database {name}".encode())
        yield name
        admin.execute(f"drop database {name}".encode())


@pytest.fixture(scope="module")
def another_server() -> Generator[str, None, None]:
    folder = Path(tempfile.mkdtemp(prefix="duly-own-"))
    server = PostgresServer(folder)
    server.create()
    server.start()
    yield server.url
    server.stop()
    shutil.rmtree(folder)


def test_another_database_of_the_same_server(postgres: Shop, another_database: str) -> None:
    with (
        psycopg.connect(postgres.url, dbname=another_database) as user,
        pytest.raises(WrongConnection, match=f"'{another_database}'"),
    ):
        postgres.ask(user, 1)


async def test_another_database_awaited(postgres: Shop, another_database: str) -> None:
    async with await psycopg.AsyncConnection.connect(postgres.url, dbname=another_database) as user:
        with pytest.raises(WrongConnection, match=f"'{another_database}'"):
            await postgres.aask(user, 1)


def test_a_database_of_the_same_name_on_another_server(postgres: Shop, another_server: str) -> None:
    with psycopg.connect(another_server) as user, pytest.raises(WrongConnection, match="store's database"):
        postgres.ask(user, 1)


def test_another_file(sqlite: Shop, tmp_path: Path) -> None:
    with (
        engine_on(f"sqlite:///{tmp_path / 'other.db'}") as engine,
        Session(engine) as session,
        pytest.raises(WrongConnection, match=r"other\.db"),
    ):
        sqlite.ask(session, 1)


def test_the_other_kind_of_database(postgres: Shop, sqlite: Shop) -> None:
    with closing(sqlite3.connect(":memory:")) as file, psycopg.connect(postgres.url) as server:
        with pytest.raises(WrongConnection, match="psycopg 3"):
            postgres.ask(file, 1)
        with pytest.raises(WrongConnection, match="sqlite3"):
            sqlite.ask(server, 1)


@pytest.mark.parametrize("what", ["engine", "sessionmaker", "pool", "url", "number"])
def test_what_only_makes_connections(postgres: Shop, what: str) -> None:
    with (
        engine_on(postgres.url) as engine,
        ConnectionPool(postgres.url, min_size=0, max_size=1, open=True) as pool,
    ):
        given: dict[str, Any] = {
            "engine": engine,
            "sessionmaker": sessionmaker,
            "pool": pool,
            "url": postgres.url,
            "number": 42,
        }

        with pytest.raises(WrongConnection, match="holds no connection of psycopg 3"):
            postgres.ask(given[what], 1)


def test_a_driver_other_than_psycopg_is_named(postgres: Shop) -> None:
    connection_of_asyncpg = type("Connection", (), {"__module__": "asyncpg.connection"})()

    with pytest.raises(WrongConnection, match=r"asyncpg\.connection\.Connection.*psycopg 3"):
        postgres.ask(connection_of_asyncpg, 1)


# --- async connections in blocking calls, and the other way round -----------------------------------


async def test_an_async_connection_in_a_blocking_call(postgres: Shop) -> None:
    async with await psycopg.AsyncConnection.connect(postgres.url) as user:
        with pytest.raises(WrongConnection, match="async twin"):
            postgres.ask(user, 1)


async def test_an_async_session_in_a_blocking_call(postgres: Shop) -> None:
    engine = create_async_engine(alchemy_url(postgres.url), poolclass=NullPool)
    async with AsyncSession(engine) as session, engine.connect() as connection:
        for given in (session, connection):
            with pytest.raises(WrongConnection, match="async twin"):
                postgres.ask(given, 1)
    await engine.dispose()


async def test_code_that_blocks_inside_run_sync_is_served_there(postgres: Shop) -> None:
    engine = create_async_engine(alchemy_url(postgres.url), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        await session.run_sync(lambda plain: postgres.ask(plain, 1, "order:1"))
        before = postgres.receipts()
        await session.commit()
    await engine.dispose()

    assert (before, postgres.receipts()) == ([], [1])


async def test_the_plain_half_of_an_async_session_is_refused_outside_of_run_sync(postgres: Shop) -> None:
    engine = create_async_engine(alchemy_url(postgres.url), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        await session.connection()
        with pytest.raises(WrongConnection, match="async twin"):
            postgres.ask(session.sync_session, 1)
    await engine.dispose()


async def test_a_session_that_blocks_is_served_in_an_async_call(postgres: Shop) -> None:
    with engine_on(postgres.users_url) as engine, Session(engine) as session:
        await postgres.aask(session, 1)
        session.commit()

    assert postgres.receipts() == [1]


def test_a_session_of_aiosqlite_is_refused_with_the_reason(sqlite: Shop) -> None:
    pytest.importorskip("aiosqlite")

    async def ask() -> None:
        engine = create_async_engine(sqlite.url.replace("sqlite:", "sqlite+aiosqlite:"))
        async with AsyncSession(engine) as session:
            with pytest.raises(WrongConnection, match="aiosqlite keeps its connection in a thread"):
                await sqlite.aask(session, 1)
        await engine.dispose()

    asyncio.run(ask())


# --- SQLite that cannot write ------------------------------------------------------------------------


def test_a_file_opened_for_reading(sqlite: Shop) -> None:
    path = sqlite.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as user:
        with pytest.raises(WrongConnection, match="may only read"):
            sqlite.ask(user, 1)

        assert not user.in_transaction


def test_a_connection_told_to_read_only(sqlite: Shop) -> None:
    engine = create_engine(sqlite.url, poolclass=NullPool)
    with engine.connect() as user:
        user.exec_driver_sql("pragma query_only = on")
        with pytest.raises(WrongConnection, match="may only read"):
            sqlite.ask(user, 1)
    engine.dispose()
