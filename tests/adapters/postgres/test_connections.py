"""What a connection knows: settings and prepared statements, kept over rollbacks, never taken for granted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from tests.adapters.postgres.arrange import claim, eventually, put, request
from tests.servers import postgres_url

from duly.stores.drive import Operation, Row, Statement, Steps
from duly.stores.postgres import PostgresStore
from duly.stores.postgres.operations.again import Repeat

PREPARED: Final = "select name from pg_prepared_statements order by name"
OFTEN: Final = 8
"""More than it takes until a statement is prepared."""


def names(rows: Sequence[Row]) -> list[str]:
    return [name for (name,) in rows]


def prepared(store: PostgresStore) -> list[str]:
    """What the connection has in store for the next operation."""
    return store.run(Operation("look", _look))


def _look() -> Steps[list[str]]:
    return names((yield Statement(PREPARED)))


def _forget() -> Steps[None]:
    yield Statement("deallocate all")


def once_repeated() -> Operation[int]:
    """An operation that finds in its first try that it must start over."""
    tries: list[int] = []

    def steps() -> Steps[int]:
        yield Statement("select 1")
        tries.append(1)
        if len(tries) == 1:
            raise Repeat("once")
        return len(tries)

    return Operation("repeat", steps)


@pytest.fixture
def used(store: PostgresStore, other: PostgresStore) -> PostgresStore:
    """A store whose connection has prepared its statements and never met a rollback."""
    put(store, request())  # making a lane takes one
    for _ in range(OFTEN):
        claim(other)
    return other


def connections(store: PostgresStore) -> int:
    """How many a server counts that bear this store's name, once those that are closing are gone."""
    name = parse_qs(urlsplit(store.url).query)["application_name"][0]
    count = "select count(*) from pg_stat_activity where application_name = %s"
    with psycopg.connect(postgres_url(), autocommit=True) as admin:

        def left() -> int:
            row = admin.execute(count, (name,)).fetchone()
            return row[0] if row else 0

        eventually(lambda: left() == 0, seconds=20)
        return left()


@pytest.fixture
def named(url: str, schema: str) -> PostgresStore:
    """A store whose connections can be told from others."""
    return PostgresStore(f"{url}&application_name={schema}", namespace=schema)


def test_a_rollback_costs_no_prepared_statement(used: PostgresStore) -> None:
    before = prepared(used)

    assert used.run(once_repeated()) == 2
    put(used, request())

    assert len(before) > 1  # else there was nothing to lose
    assert set(before) <= set(prepared(used))


def test_an_awaited_rollback_costs_none_either(used: PostgresStore) -> None:
    async def story() -> tuple[list[str], list[str]]:
        for _ in range(OFTEN):
            await used.arun(used.put([request()]))
        before = await used.arun(Operation("look", _look))
        await used.arun(once_repeated())
        await used.arun(used.put([request()]))
        return before, await used.arun(Operation("look", _look))

    before, after = asyncio.run(story())

    assert len(before) > 1
    assert set(before) <= set(after)


@pytest.mark.parametrize("is_awaited", [False, True], ids=["blocking", "awaited"])
def test_a_connection_that_forgot_its_statements_is_replaced(
    store: PostgresStore, *, is_awaited: bool
) -> None:
    forget = Operation("forget", _forget)

    async def story() -> None:
        await store.arun(forget)
        await store.arun(store.put([request()]))

    if is_awaited:
        asyncio.run(story())
    else:
        store.run(forget)
        put(store, request())

    assert len(claim(store)) == 1


def test_a_connection_in_use_while_the_store_closes_is_closed_when_it_comes_back(
    named: PostgresStore,
) -> None:
    def steps() -> Steps[None]:
        yield Statement("select 1")
        named.close()  # as another thread might, in the middle of an operation

    named.run(Operation("close", steps))

    assert connections(named) == 0


def test_an_awaited_connection_in_use_while_the_store_closes_is_closed_too(named: PostgresStore) -> None:
    def steps() -> Steps[None]:
        yield Statement("select 1")
        named.close()

    asyncio.run(named.arun(Operation("close", steps)))

    assert connections(named) == 0
