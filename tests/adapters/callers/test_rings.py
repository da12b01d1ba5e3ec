"""The doorbell rings once a user's transaction has committed: for SQLAlchemy when it says so, for a bare
connection not at all, unless it commits at once."""

from __future__ import annotations

import gc
import sqlite3
import threading
import weakref
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool
from tests.adapters.callers.arrange import Counted, Shop
from tests.adapters.callers.kinds import alchemy_url, engine_on
from tests.stories.arrange import until, working

from duly import Duly

OpenShop = Callable[[str], Shop]

on_both = pytest.mark.parametrize("store", ["postgres", "sqlite"])


# --- sessions -------------------------------------------------------------------------------------


@on_both
def test_the_commit_of_a_session_rings(open_shop: OpenShop, store: str) -> None:
    shop = open_shop(store)
    rings = Counted(shop)
    with engine_on(shop.users_url) as engine, Session(engine) as session:
        shop.ask(session, 1)
        before = rings.count
        session.commit()

    assert (before, rings.settled()) == (0, 1)


@on_both
@pytest.mark.parametrize("end", ["rollback", "close"])
def test_a_session_that_does_not_commit_does_not_ring(open_shop: OpenShop, store: str, end: str) -> None:
    shop = open_shop(store)
    rings = Counted(shop)
    with engine_on(shop.users_url) as engine, Session(engine) as session:
        shop.ask(session, 1)
        getattr(session, end)()
        session.connection()
        session.commit()  # a later transaction, with nothing of ours in it

    assert rings.settled() == 0


def test_a_session_rings_once_however_many_requests_it_made(postgres: Shop) -> None:
    rings = Counted(postgres)
    with engine_on(postgres.users_url) as engine, Session(engine) as session:
        for order in range(5):
            postgres.ask(session, order)
        session.commit()
        session.connection()
        session.commit()

    assert rings.count == 1


def test_a_savepoint_of_a_session_does_not_ring_but_its_commit_does(postgres: Shop) -> None:
    rings = Counted(postgres)
    with engine_on(postgres.users_url) as engine, Session(engine) as session:
        with session.begin_nested():
            postgres.ask(session, 1)
        before = rings.count
        session.commit()

    assert (before, rings.count) == (0, 1)


def test_every_transaction_of_a_session_rings_and_listens_once(postgres: Shop) -> None:
    rings = Counted(postgres)
    with engine_on(postgres.users_url) as engine, Session(engine) as session:
        for order in range(3):
            postgres.ask(session, order)
            session.commit()
        listeners = len(list(session.dispatch.after_commit))

    assert (rings.count, listeners) == (3, 1)


def test_a_registry_listens_for_its_session_and_not_for_all(postgres: Shop) -> None:
    rings = Counted(postgres)
    with engine_on(postgres.users_url) as engine:
        factory = sessionmaker(engine)
        registry = scoped_session(factory)
        postgres.ask(registry, 1)
        registry.commit()
        registry.remove()
        with factory() as another:
            another.connection()
            another.commit()
            listeners = list(another.dispatch.after_commit)

    assert rings.count == 1
    assert listeners == []


def test_a_session_inside_somebodys_connection_rings_with_that(postgres: Shop) -> None:
    rings = Counted(postgres)
    with engine_on(postgres.users_url) as engine, engine.connect() as connection:
        outer = connection.begin()
        with Session(connection) as session:
            postgres.ask(session, 1)
            session.commit()
        before = rings.count
        outer.commit()

        assert (before, rings.settled()) == (0, 1)


async def test_the_commit_of_an_async_session_rings(postgres: Shop) -> None:
    rings = Counted(postgres)
    engine = create_async_engine(alchemy_url(postgres.users_url), poolclass=NullPool)
    async with AsyncSession(engine) as session:
        await postgres.aask(session, 1)
        before = rings.count
        await session.commit()
    await engine.dispose()

    assert (before, rings.settled()) == (0, 1)


# --- connections of SQLAlchemy --------------------------------------------------------------------


@on_both
def test_the_commit_of_a_connection_rings(open_shop: OpenShop, store: str) -> None:
    shop = open_shop(store)
    rings = Counted(shop)
    with engine_on(shop.users_url) as engine, engine.connect() as connection:
        shop.ask(connection, 1)
        before = rings.count
        connection.commit()

        assert (before, rings.settled()) == (0, 1)


@pytest.mark.parametrize("end", ["rollback", "close"])
def test_a_connection_that_does_not_commit_does_not_ring(postgres: Shop, end: str) -> None:
    rings = Counted(postgres)
    with engine_on(postgres.users_url) as engine, engine.connect() as connection:
        postgres.ask(connection, 1)
        getattr(connection, end)()

    assert rings.settled() == 0


def test_a_connection_rings_once_for_each_transaction(postgres: Shop) -> None:
    rings = Counted(postgres)
    with engine_on(postgres.users_url) as engine, engine.connect() as connection:
        for transaction in range(3):
            for order in range(4):
                postgres.ask(connection, order + 10 * transaction)
            connection.commit()
        connection.exec_driver_sql("select 1")
        connection.commit()
        listeners = len(list(connection.dispatch.commit))

    assert rings.settled() == 3
    assert listeners == 1


A_SLOW_COMMIT = (
    "create function pg_temp.dawdle() returns trigger language plpgsql "
    "as $$ begin perform pg_sleep(0.5); return null; end $$",
    "create temporary table slow (id int)",
    "create constraint trigger slow after insert on slow deferrable initially deferred "
    "for each row execute function pg_temp.dawdle()",
    "insert into slow values (1)",
)


def test_a_ring_of_a_connection_comes_after_its_commit(postgres: Shop) -> None:
    found: list[list[int]] = []
    rung = threading.Event()

    def look() -> None:
        found.append(postgres.receipts())
        rung.set()

    driver: Any = postgres.app.store
    driver.driver.ring = look
    with engine_on(postgres.users_url) as engine, engine.begin() as connection:
        for statement in A_SLOW_COMMIT:
            connection.exec_driver_sql(statement)
        postgres.ask(connection, 1)

    assert rung.wait(30)
    assert found == [[1]]


async def test_the_commit_of_an_async_connection_rings(postgres: Shop) -> None:
    rings = Counted(postgres)
    engine = create_async_engine(alchemy_url(postgres.users_url), poolclass=NullPool)
    async with engine.connect() as connection:
        await postgres.aask(connection, 1)
        before = rings.count
        await connection.commit()
    await engine.dispose()

    assert (before, rings.settled()) == (0, 1)


@on_both
def test_a_connection_that_commits_by_itself_rings_at_once(open_shop: OpenShop, store: str) -> None:
    shop = open_shop(store)
    rings = Counted(shop)
    engine = create_engine(alchemy_url(shop.users_url), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        shop.ask(connection, 1)
        count = rings.count
    engine.dispose()

    assert count == 1


def test_what_listened_goes_with_the_session_and_the_connection(postgres: Shop) -> None:
    with engine_on(postgres.users_url) as engine:
        gone = [_used_up(postgres, Session(engine)), _used_up(postgres, engine.connect())]
        until(lambda: not any(thread.name == "duly-commit" for thread in threading.enumerate()))
        gc.collect()

    assert [one() for one in gone] == [None, None]


def _used_up(shop: Shop, given: Session | Connection) -> weakref.ref[Any]:
    shop.ask(given, 1)
    given.commit()
    given.close()
    return weakref.ref(given)


# --- bare connections -----------------------------------------------------------------------------


def test_a_bare_connection_that_commits_each_statement_rings_at_once(postgres: Shop, sqlite: Shop) -> None:
    rings = Counted(postgres), Counted(sqlite)
    with psycopg.connect(postgres.users_url, autocommit=True) as user:
        postgres.ask(user, 1)
    path = sqlite.url.removeprefix("sqlite:///")
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        sqlite.ask(file, 1)

    assert [one.count for one in rings] == [1, 1]


def test_a_bare_connection_in_a_transaction_does_not_ring(postgres: Shop) -> None:
    rings = Counted(postgres)
    with psycopg.connect(postgres.users_url) as user:
        postgres.ask(user, 1)
        user.commit()

    assert rings.settled() == 0


# --- with a worker --------------------------------------------------------------------------------


def idle(shop: Shop, app: Duly) -> bool:
    """Whether the worker of that application listens, and has nothing to do."""
    shop.ran.clear()
    describe: Any = app.store
    return describe.describe()["bell"] in ("listening", "sockets")


@on_both
@pytest.mark.parametrize("kind", ["session", "connection"])
def test_an_idle_worker_starts_the_job_right_after_the_commit(
    open_shop: OpenShop, store: str, kind: str
) -> None:
    shop = open_shop(store)
    elsewhere = shop.open_branch(poll="10m")
    with working(elsewhere), engine_on(shop.users_url) as engine:
        shop.send_receipt.enqueue(0)
        assert shop.ran.wait(60)
        until(lambda: idle(shop, elsewhere))
        with Session(engine) if kind == "session" else engine.connect() as user:
            shop.ask(user, 1)
            is_early = shop.ran.wait(0.1)
            user.commit()

            assert not is_early
            assert shop.ran.wait(60)


@on_both
def test_an_idle_worker_finds_the_job_of_a_bare_connection_when_it_looks(
    open_shop: OpenShop, store: str
) -> None:
    shop = open_shop(store)
    elsewhere = shop.open_branch(poll="500ms")
    with working(elsewhere):
        shop.send_receipt.enqueue(0)
        assert shop.ran.wait(60)
        shop.ran.clear()
        path = shop.url.removeprefix("sqlite:///")
        with psycopg.connect(shop.url) if store == "postgres" else closing(sqlite3.connect(path)) as user:
            shop.ask(user, 1, "order:1")
            user.commit()

        assert shop.ran.wait(60)
