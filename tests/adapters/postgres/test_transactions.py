"""Requests inside the caller's own transaction: there if and only if, and only after, it commits."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from tests.adapters.postgres.arrange import KEY, claim, find, put, request, settle

from duly.errors import BadRequest, WrongConnection
from duly.job import Decision
from duly.stores.postgres import PostgresStore

PROGRAMS = Path(__file__).with_name("programs")


@pytest.mark.parametrize("key", [None, KEY], ids=["unkeyed", "keyed"])
def test_a_job_is_seen_after_the_commit_and_not_before(
    store: PostgresStore, connection: psycopg.Connection, key: str | None
) -> None:
    wanted = request(key)
    [placed] = store.run_on(connection, store.offer([wanted]))

    before = (claim(store), find(store, wanted.id))
    connection.commit()

    assert before == ([], [])
    assert placed.decision is (Decision.PENDING if key else Decision.CREATED)
    assert [lent.id for lent in claim(store)] == [wanted.id]


@pytest.mark.parametrize("key", [None, KEY], ids=["unkeyed", "keyed"])
def test_a_rollback_takes_the_job_with_it(
    store: PostgresStore, connection: psycopg.Connection, key: str | None
) -> None:
    wanted = request(key)
    store.run_on(connection, store.offer([wanted]))

    connection.rollback()

    assert claim(store) == []
    assert find(store, wanted.id) == []


def test_the_job_and_the_users_rows_commit_together(
    store: PostgresStore, connection: psycopg.Connection, schema: str
) -> None:
    orders = sql.Identifier(schema, "orders")
    connection.execute(sql.SQL("create table {} (id int)").format(orders))
    connection.execute(sql.SQL("insert into {} values (17)").format(orders))
    wanted = request()
    store.run_on(connection, store.offer([wanted]))
    connection.commit()

    (count,) = connection.execute(sql.SQL("select count(*) from {}").format(orders)).fetchone() or (0,)

    connection.execute(sql.SQL("drop table {}").format(orders))
    connection.commit()
    assert (count, len(find(store, wanted.id))) == (1, 1)


def test_on_a_connection_that_commits_each_statement_the_job_is_there_at_once(
    store: PostgresStore, url: str
) -> None:
    wanted = request()
    with psycopg.connect(url, autocommit=True) as connection:
        store.run_on(connection, store.offer([wanted]))

    assert [lent.id for lent in claim(store)] == [wanted.id]


def test_a_request_that_cannot_be_taken_leaves_the_users_transaction_alive(
    store: PostgresStore, connection: psycopg.Connection
) -> None:
    connection.execute("select 1")
    good = request()

    with pytest.raises(BadRequest, match="ud83d"):
        store.run_on(connection, store.offer([request(arguments="\ud83d")]))
    store.run_on(connection, store.offer([good]))
    connection.commit()

    assert [lent.id for lent in claim(store)] == [good.id]


def test_a_transaction_that_failed_is_refused_with_the_remedy(
    store: PostgresStore, connection: psycopg.Connection
) -> None:
    store.run_on(connection, store.offer([request()]))
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("select 1/0")

    with pytest.raises(WrongConnection, match="Roll it back"):
        store.run_on(connection, store.offer([request()]))


def test_the_same_offer_twice_is_one_job(store: PostgresStore, connection: psycopg.Connection) -> None:
    wanted = request(KEY)
    for _ in range(2):
        store.run_on(connection, store.offer([wanted]))
        connection.commit()

    assert [lent.id for lent in claim(store)] == [wanted.id]
    assert len(find(store, wanted.id)) == 1


def test_users_with_one_key_never_wait_for_each_other(
    store: PostgresStore, url: str, connection: psycopg.Connection
) -> None:
    with psycopg.connect(url) as second:
        for user in (connection, second):
            user.execute("set lock_timeout = '2s'")
        store.run_on(connection, store.offer([request(KEY), request("other")]))
        store.run_on(second, store.offer([request("other"), request(KEY)]))
        second.commit()
        connection.commit()

    assert len(claim(store)) == 2


def test_an_open_transaction_with_an_offer_holds_nobody_up(
    store: PostgresStore, connection: psycopg.Connection
) -> None:
    put(store, request(KEY))
    [lent] = claim(store)
    store.run_on(connection, store.offer([request(KEY), request()]))

    put(store, request("another"))

    assert settle(store, lent) == ["settled"]
    assert len(claim(store)) == 1


def test_offers_for_one_key_are_placed_in_the_order_they_were_made(
    store: PostgresStore, connection: psycopg.Connection
) -> None:
    for number in range(3):
        store.run_on(connection, store.offer([request(KEY, arguments=f"[[{number}],{{}}]")]))
    connection.commit()

    assert [lent.arguments for lent in claim(store)] == ["[[2],{}]"]


def test_many_processes_that_place_offers_place_each_once(
    store: PostgresStore, other: PostgresStore, connection: psycopg.Connection
) -> None:
    wanted = [request(f"key {number}") for number in range(300)]
    store.run_on(connection, store.offer(wanted))
    connection.commit()
    taken: list[str] = []

    def take(one: PostgresStore) -> None:
        taken.extend(lent.id for lent in claim(one, limit=200))

    threads = [threading.Thread(target=take, args=(one,)) for one in (store, other)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken += [lent.id for lent in claim(store, "w2", limit=500)]

    assert sorted(taken) == sorted(one.id for one in wanted)


def test_a_line_that_cannot_be_read_keeps_nobody_from_work(
    store: PostgresStore, connection: psycopg.Connection, schema: str, caplog: pytest.LogCaptureFixture
) -> None:
    intake = sql.Identifier(schema, "intake")
    connection.execute(
        sql.SQL("insert into {} (id, offered_at, request) values ('x', 0, '{{')").format(intake)
    )
    connection.commit()
    wanted = request(KEY)
    put(store, wanted)

    lent = claim(store)

    assert [one.id for one in lent] == [wanted.id]
    assert caplog.text.count("cannot be read by this version") == 1


# --- which connections --------------------------------------------------------------------------


def test_a_connection_to_another_database_is_refused(store: PostgresStore, url: str) -> None:
    name = f"elsewhere_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"create database {name}".encode())
    with (
        psycopg.connect(url, dbname=name) as elsewhere,
        pytest.raises(WrongConnection, match=f"'{name}'"),
    ):
        store.run_on(elsewhere, store.offer([request()]))
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"drop database {name}".encode())


@pytest.mark.parametrize("stranger", [object(), sqlite3.connect(":memory:")], ids=["object", "sqlite3"])
def test_something_that_is_no_connection_to_postgresql_is_refused(
    store: PostgresStore, stranger: Any
) -> None:
    with pytest.raises(WrongConnection, match="psycopg 3"):
        store.run_on(stranger, store.offer([request()]))


async def test_an_async_connection_is_awaited(store: PostgresStore, url: str) -> None:
    wanted = [request(), request(KEY)]
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await store.arun_on(connection, store.offer(wanted))
        before = claim(store)
        await connection.commit()

    assert before == []
    assert {lent.id for lent in claim(store)} == {one.id for one in wanted}


@pytest.mark.parametrize("autocommit", [True, False])
async def test_a_cancelled_enqueue_leaves_the_connection_as_it_was(
    store: PostgresStore, connection: psycopg.Connection, url: str, schema: str, *, autocommit: bool
) -> None:
    given_up, kept = request(KEY), request(KEY)
    async with await psycopg.AsyncConnection.connect(url, autocommit=autocommit) as theirs:
        await theirs.execute("select 1")
        before = theirs.info.transaction_status
        connection.execute(sql.SQL("lock table {} in share mode").format(sql.Identifier(schema, "intake")))

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await store.arun_on(theirs, store.offer([given_up]))

        after = theirs.info.transaction_status
        connection.rollback()
        await store.arun_on(theirs, store.offer([kept]))
        await theirs.commit()

    assert after is before
    assert [lent.id for lent in claim(store)] == [kept.id]


async def test_an_async_connection_in_a_blocking_call_is_refused(store: PostgresStore, url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        with pytest.raises(WrongConnection, match="async twin"):
            store.run_on(connection, store.offer([request()]))


@pytest.mark.parametrize("how", ["atomic", "rollback", "autocommit"])
def test_djangos_connection_is_one_too(store: PostgresStore, url: str, schema: str, how: str) -> None:
    wanted = request(KEY)

    subprocess.run([sys.executable, PROGRAMS / "django_offer.py", url, schema, wanted.id, how], check=True)

    expected = [] if how == "rollback" else [wanted.id]
    assert [lent.id for lent in claim(store)] == expected


# --- SQLAlchemy ---------------------------------------------------------------------------------


def alchemy(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
def test_an_sqlalchemy_connection_is_one_too(store: PostgresStore, url: str, *, commits: bool) -> None:
    from sqlalchemy import create_engine

    wanted = request(KEY)
    engine = create_engine(alchemy(url))
    with engine.connect() as connection:
        store.run_on(connection, store.offer([wanted]))
        connection.commit() if commits else connection.rollback()
    engine.dispose()

    assert [lent.id for lent in claim(store)] == ([wanted.id] if commits else [])


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
def test_an_sqlalchemy_session_is_one_too(store: PostgresStore, url: str, *, commits: bool) -> None:
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session

    wanted = request()
    engine = create_engine(alchemy(url))
    with Session(engine) as session:
        store.run_on(session, store.offer([wanted]))
        session.commit() if commits else session.rollback()
    engine.dispose()

    assert [lent.id for lent in claim(store)] == ([wanted.id] if commits else [])


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "rollback"])
async def test_an_async_sqlalchemy_session_is_one_too(
    store: PostgresStore, url: str, *, commits: bool
) -> None:
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    wanted = request()
    engine = create_async_engine(alchemy(url))
    async with AsyncSession(engine) as session:
        await session.connection()
        await store.arun_on(session, store.offer([wanted]))
        await (session.commit() if commits else session.rollback())
    await engine.dispose()

    assert [lent.id for lent in claim(store)] == ([wanted.id] if commits else [])
