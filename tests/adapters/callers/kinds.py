"""Everything a caller may hold a transaction with, said in the same few words.

A kind opens a transaction of a user, in which a row is written, and ends it; `connection` is what the user
would pass to `using`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Protocol

import psycopg
from psycopg_pool import ConnectionPool
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool


class Undone(Exception):
    """Rolls a savepoint back."""


class User(Protocol):
    """A user in a transaction."""

    connection: Any

    def write(self) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def savepoint(self) -> Any: ...


class AsyncUser(Protocol):
    """The same on an event loop."""

    connection: Any

    async def write(self) -> None: ...
    async def commit(self) -> None: ...
    async def rollback(self) -> None: ...
    def savepoint(self) -> Any: ...


WRITE: Final = "insert into orders values (1)"


def alchemy_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


def file_of(url: str) -> str:
    return url.removeprefix("sqlite:///")


# --- PostgreSQL -----------------------------------------------------------------------------------


class Psycopg:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.commit = connection.commit
        self.rollback = connection.rollback
        self.savepoint = connection.transaction

    def write(self) -> None:
        self.connection.execute(WRITE)


@contextmanager
def with_psycopg(url: str) -> Generator[User, None, None]:
    with psycopg.connect(url) as connection:
        yield Psycopg(connection)


@contextmanager
def with_psycopg_pool(url: str) -> Generator[User, None, None]:
    with ConnectionPool(url, min_size=1, max_size=1, open=True) as pool, pool.connection() as connection:
        yield Psycopg(connection)


# --- SQLite ---------------------------------------------------------------------------------------


class Sqlite3:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.commit = connection.commit
        self.rollback = connection.rollback

    def write(self) -> None:
        self.connection.execute(WRITE)

    @contextmanager
    def savepoint(self) -> Generator[None, None, None]:
        self.connection.execute("savepoint theirs")
        try:
            yield
        except BaseException:
            self.connection.execute("rollback to theirs")
            raise
        finally:
            self.connection.execute("release theirs")


@contextmanager
def with_sqlite3(url: str) -> Generator[User, None, None]:
    connection = sqlite3.connect(file_of(url))
    try:
        yield Sqlite3(connection)
    finally:
        connection.close()


# --- SQLAlchemy on either -------------------------------------------------------------------------


class Alchemy:
    """A Connection, a Session and a registry of sessions speak alike."""

    def __init__(self, connection: Connection | Session | scoped_session[Session]) -> None:
        self.connection = connection
        self.commit = connection.commit
        self.rollback = connection.rollback
        self.savepoint = connection.begin_nested

    def write(self) -> None:
        self.connection.execute(text(WRITE))


@contextmanager
def engine_on(url: str) -> Generator[Engine, None, None]:
    engine = create_engine(alchemy_url(url), poolclass=NullPool)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def with_alchemy_connection(url: str) -> Generator[User, None, None]:
    with engine_on(url) as engine, engine.connect() as connection:
        yield Alchemy(connection)


@contextmanager
def with_alchemy_session(url: str) -> Generator[User, None, None]:
    with engine_on(url) as engine, Session(engine) as session:
        yield Alchemy(session)


@contextmanager
def with_alchemy_registry(url: str) -> Generator[User, None, None]:
    with engine_on(url) as engine:
        registry = scoped_session(sessionmaker(engine))
        try:
            yield Alchemy(registry)
        finally:
            registry.remove()


# --- async ----------------------------------------------------------------------------------------


class AsyncPsycopg:
    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self.connection = connection
        self.commit = connection.commit
        self.rollback = connection.rollback
        self.savepoint = connection.transaction

    async def write(self) -> None:
        await self.connection.execute(WRITE)


@asynccontextmanager
async def with_async_psycopg(url: str) -> AsyncGenerator[AsyncUser, None]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield AsyncPsycopg(connection)


class AsyncAlchemy:
    def __init__(self, connection: AsyncConnection | AsyncSession) -> None:
        self.connection = connection
        self.commit = connection.commit
        self.rollback = connection.rollback
        self.savepoint = connection.begin_nested

    async def write(self) -> None:
        await self.connection.execute(text(WRITE))


@asynccontextmanager
async def with_async_connection(url: str) -> AsyncGenerator[AsyncUser, None]:
    engine = create_async_engine(alchemy_url(url), poolclass=NullPool)
    async with engine.connect() as connection:
        yield AsyncAlchemy(connection)
    await engine.dispose()


@asynccontextmanager
async def with_async_session(url: str) -> AsyncGenerator[AsyncUser, None]:
    engine = create_async_engine(alchemy_url(url), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        yield AsyncAlchemy(session)
    await engine.dispose()


KINDS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "psycopg": ("postgres", with_psycopg),
    "psycopg_pool": ("postgres", with_psycopg_pool),
    "sqlalchemy connection on postgres": ("postgres", with_alchemy_connection),
    "sqlalchemy session on postgres": ("postgres", with_alchemy_session),
    "sqlalchemy registry on postgres": ("postgres", with_alchemy_registry),
    "sqlite3": ("sqlite", with_sqlite3),
    "sqlalchemy connection on sqlite": ("sqlite", with_alchemy_connection),
    "sqlalchemy session on sqlite": ("sqlite", with_alchemy_session),
    "sqlalchemy registry on sqlite": ("sqlite", with_alchemy_registry),
}

ASYNC_KINDS: Final[dict[str, Callable[[str], Any]]] = {
    "async psycopg": with_async_psycopg,
    "async sqlalchemy connection": with_async_connection,
    "async sqlalchemy session": with_async_session,
}
