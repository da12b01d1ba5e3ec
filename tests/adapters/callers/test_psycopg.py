"""Connections of psycopg as applications set them up: factories, types, modes, levels of isolation."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel, sql
from psycopg.adapt import Loader
from psycopg.rows import dict_row, namedtuple_row
from psycopg.types.string import BytesDumper
from tests.adapters.callers.arrange import Shop

from duly.errors import BadRequest, WrongConnection


@pytest.fixture
def user(postgres: Shop) -> Generator[psycopg.Connection[Any], None, None]:
    with psycopg.connect(postgres.users_url) as connection:
        yield connection


each_way = pytest.mark.parametrize("key", [None, "order:1"], ids=["unkeyed", "keyed"])

User = psycopg.Connection[Any]


# --- how it is set up -----------------------------------------------------------------------------


@pytest.mark.parametrize("factory", [dict_row, namedtuple_row])
@each_way
def test_row_factories_do_not_matter(postgres: Shop, user: User, factory: Any, key: str | None) -> None:
    user.row_factory = factory

    postgres.ask(user, 1, key)
    user.commit()

    assert postgres.receipts() == [1]
    assert user.row_factory is factory


@pytest.mark.parametrize("factory", [psycopg.ClientCursor, psycopg.RawCursor])
def test_cursor_factories_do_not_matter(postgres: Shop, user: User, factory: Any) -> None:
    user.cursor_factory = factory

    postgres.ask(user, 1, "order:1")
    postgres.ask(user, 2)
    user.commit()

    assert postgres.receipts() == [1, 2]


class Shouting(Loader):
    """Reads everything as something else."""

    def load(self, data: Any) -> str:
        return "!"


@each_way
def test_types_taught_to_a_connection_do_not_matter(postgres: Shop, user: User, key: str | None) -> None:
    for name in ("text", "int8", "int4", "bool", "uuid", "name"):
        user.adapters.register_loader(name, Shouting)
    user.adapters.register_dumper(str, BytesDumper)

    postgres.ask(user, 1, key)
    user.commit()

    assert postgres.receipts() == [1]


@pytest.mark.parametrize("threshold", [0, None])
def test_nothing_is_prepared_on_the_users_connection(
    postgres: Shop, user: User, threshold: int | None
) -> None:
    user.prepare_threshold = threshold

    for order in range(8):
        postgres.ask(user, order, f"order:{order}")
    user.commit()
    user.prepare_threshold = None
    prepared = user.execute("select name from pg_prepared_statements").fetchall()

    assert prepared == []
    assert len(postgres.receipts()) == 8


def test_no_setting_is_left_behind(postgres: Shop, user: User) -> None:
    ask = "select name, setting from pg_settings order by name"
    before = user.execute(ask).fetchall()

    postgres.ask(user, 1)
    postgres.ask(user, 2, "order:2")

    assert user.execute(ask).fetchall() == before


def test_where_names_are_looked_up_does_not_matter(postgres: Shop, user: User) -> None:
    decoy = sql.Identifier(f"{postgres.namespace}_decoy")
    user.execute(sql.SQL("create schema {}").format(decoy))
    user.execute(sql.SQL("set local search_path to {}").format(decoy))
    for table in ("job", "intake", "lane", "ready"):
        user.execute(sql.SQL("create table {} (nothing int)").format(sql.Identifier(table)))

    postgres.ask(user, 1)
    postgres.ask(user, 2, "order:2")
    user.execute(sql.SQL("drop schema {} cascade").format(decoy))
    user.commit()

    assert postgres.receipts() == [1, 2]


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/St_Johns"])
def test_the_time_zone_of_the_connection_does_not_matter(postgres: Shop, user: User, zone: str) -> None:
    user.execute("select set_config('timezone', %s, false), set_config('datestyle', 'german', false)", [zone])

    postgres.ask(user, 1)
    user.commit()

    assert postgres.receipts() == [1]


def test_another_encoding_is_refused_with_the_remedy(postgres: Shop, user: User) -> None:
    user.execute("set client_encoding to latin1")

    with pytest.raises(WrongConnection, match=r"LATIN1.*Set it to UTF8"):
        postgres.ask(user, 1)


# --- modes ----------------------------------------------------------------------------------------


@each_way
def test_with_autocommit_the_job_is_there_at_once(postgres: Shop, user: User, key: str | None) -> None:
    user.autocommit = True

    postgres.ask(user, 1, key)

    assert postgres.receipts() == [1]
    assert user.info.transaction_status is psycopg.pq.TransactionStatus.IDLE


@pytest.mark.parametrize("fails", [False, True], ids=["commit", "rollback"])
def test_with_autocommit_a_transaction_block_decides(postgres: Shop, user: User, *, fails: bool) -> None:
    user.autocommit = True
    before = [0]
    try:
        with user.transaction():
            postgres.ask(user, 1)
            before = postgres.receipts()
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass

    assert before == []
    assert postgres.receipts() == ([] if fails else [1])


@each_way
def test_a_pipeline_goes_on_with_the_job_in_it(postgres: Shop, user: User, key: str | None) -> None:
    with user.pipeline():
        user.execute("insert into orders values (1)")
        postgres.ask(user, 1, key)
        answer = user.execute("select count(*) from orders")
        postgres.ask(user, 2, "order:2")
        before = postgres.receipts()

    user.commit()

    assert before == []
    assert answer.fetchone() == (1,)
    assert postgres.receipts() == [1, 2]


def test_what_the_user_sent_ahead_and_failed_is_the_users_error(postgres: Shop, user: User) -> None:
    def ask_too_late() -> None:
        with user.pipeline():
            user.execute("select 1/0")
            postgres.ask(user, 1)

    with pytest.raises(psycopg.errors.DivisionByZero):
        ask_too_late()

    user.rollback()
    assert postgres.receipts() == []


def test_a_failed_request_leaves_a_pipeline_usable(postgres: Shop, user: User) -> None:
    with user.pipeline():
        user.execute("insert into orders values (1)")
        with pytest.raises(BadRequest):
            postgres.ask(user, 1, "half of a character: \ud83d")
        postgres.ask(user, 2)

    user.commit()

    assert postgres.receipts() == [2]


async def test_an_async_pipeline_goes_on_with_the_job_in_it(postgres: Shop) -> None:
    async with await psycopg.AsyncConnection.connect(postgres.users_url) as connection:
        async with connection.pipeline():
            await connection.execute("insert into orders values (1)")
            await postgres.aask(connection, 1, "order:1")
        await connection.commit()

    assert postgres.receipts() == [1]


def test_a_cursor_of_the_server_stays_open(postgres: Shop, user: User) -> None:
    with user.cursor("theirs") as cursor:
        cursor.execute("select generate_series(1, 10)")
        first = cursor.fetchmany(3)
        postgres.ask(user, 1)
        rest = cursor.fetchall()

    user.commit()

    assert (len(first), len(rest)) == (3, 7)
    assert postgres.receipts() == [1]


def test_in_the_middle_of_a_copy_it_is_refused(postgres: Shop, user: User) -> None:
    with user.cursor() as cursor, cursor.copy("copy orders from stdin") as copy:
        copy.write_row((1,))
        with pytest.raises(WrongConnection, match="middle of another statement"):
            postgres.ask(user, 1)

    postgres.ask(user, 2)
    user.commit()
    assert postgres.receipts() == [2]


def test_a_transaction_in_two_phases_counts_when_it_is_committed(own_postgres: Shop) -> None:
    with psycopg.connect(own_postgres.users_url) as user:
        user.tpc_begin(user.xid(1, "shop", "branch"))
        own_postgres.ask(user, 1)
        own_postgres.ask(user, 2, "order:2")
        user.tpc_prepare()
        before = own_postgres.receipts()
        user.tpc_commit()

    assert (before, own_postgres.receipts()) == ([], [1, 2])


# --- isolation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
@each_way
def test_every_level_of_isolation_will_do(
    postgres: Shop, user: User, level: IsolationLevel, key: str | None
) -> None:
    user.isolation_level = level
    user.execute("select * from orders")  # the snapshot is older than the lane that the job needs

    postgres.ask(user, 1, key, queue_name="brand new")
    before = postgres.receipts()
    user.commit()

    assert (before, postgres.receipts()) == ([], [1])


@pytest.mark.parametrize("level", list(IsolationLevel))
@pytest.mark.parametrize("keys", [(None, None), ("k", "k"), ("k", "j"), (None, "k")], ids=str)
def test_users_who_write_side_by_side_neither_wait_nor_fail(
    postgres: Shop, user: User, level: IsolationLevel, keys: tuple[str | None, str | None]
) -> None:
    with psycopg.connect(postgres.users_url) as other:
        for one in (user, other):
            one.isolation_level = level
            one.execute("set local lock_timeout = '1s'")
        for turn in range(3):
            postgres.ask(user, 10 + turn, keys[0], unique_for="1h" if keys[0] else None)
            postgres.ask(other, 20 + turn, keys[1], replace=keys[1] is not None)
        other.commit()
        user.commit()

    assert postgres.receipts() != []


@pytest.mark.parametrize("first_to_commit", ["user", "other"])
def test_users_with_crossing_keys_never_deadlock(postgres: Shop, user: User, first_to_commit: str) -> None:
    with psycopg.connect(postgres.users_url) as other:
        for one in (user, other):
            one.execute("set local lock_timeout = '1s'")
        postgres.ask(user, 1, "a", unique_for="1h")
        postgres.ask(other, 2, "b", unique_for="1h")
        postgres.ask(user, 3, "b", unique_for="1h")
        postgres.ask(other, 4, "a", unique_for="1h")
        ends = [user, other] if first_to_commit == "user" else [other, user]
        for one in ends:
            one.commit()

    assert postgres.receipts() == [1, 2]


def test_whoever_rolls_back_leaves_the_key_to_the_other(postgres: Shop, user: User) -> None:
    with psycopg.connect(postgres.users_url) as other:
        postgres.ask(user, 1, "a", unique_for="1h")
        postgres.ask(other, 2, "a", unique_for="1h")
        user.rollback()
        other.commit()

    assert postgres.receipts() == [2]


def test_an_open_request_keeps_nobody_from_a_direct_one_for_its_key(postgres: Shop, user: User) -> None:
    postgres.ask(user, 1, "a")

    direct = postgres.send_receipt.using(key="a").enqueue(2)
    user.commit()

    assert direct.decision == "created"
    assert postgres.receipts() == [1]  # the later request for a waiting key gives the arguments


# --- what cannot be ---------------------------------------------------------------------------------


def test_a_failed_transaction_is_refused_and_usable_after_its_rollback(postgres: Shop, user: User) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        user.execute("select 1/0")

    with pytest.raises(WrongConnection, match="Roll it back first"):
        postgres.ask(user, 1)
    user.rollback()
    postgres.ask(user, 2)
    user.commit()

    assert postgres.receipts() == [2]


@each_way
def test_a_read_only_transaction_is_refused_and_stays_usable(
    postgres: Shop, user: User, key: str | None
) -> None:
    user.read_only = True
    postgres.app.jobs.count()

    with pytest.raises(WrongConnection, match="read-only"):
        postgres.ask(user, 1, key)

    assert user.execute("select 2").fetchone() == (2,)


def test_a_closed_connection_is_refused(postgres: Shop) -> None:
    user = psycopg.connect(postgres.users_url)
    user.close()

    with pytest.raises(WrongConnection, match="closed"):
        postgres.ask(user, 1)


async def test_a_request_that_is_cancelled_can_be_rolled_back(postgres: Shop) -> None:
    async with await psycopg.AsyncConnection.connect(postgres.users_url) as connection:
        with psycopg.connect(postgres.url) as blocker:
            blocker.execute(sql.SQL("lock table {}").format(sql.Identifier(postgres.namespace, "intake")))
            asking = asyncio.create_task(postgres.aask(connection, 1, "order:1"))
            await _waiting_for_a_lock(postgres)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        await connection.rollback()
        await postgres.aask(connection, 2, "order:2")
        await connection.commit()

    assert postgres.receipts() == [2]


async def _waiting_for_a_lock(shop: Shop) -> None:
    ask = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like %s"
    async with await psycopg.AsyncConnection.connect(shop.url, autocommit=True) as looking:
        while (await (await looking.execute(ask, [f"%{shop.namespace}%intake%"])).fetchone()) == (0,):
            await asyncio.sleep(0.01)
