"""A job completed inside the caller's transaction: effect and completion together, or neither."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import IsolationLevel, sql
from tests.adapters.postgres.arrange import KEY, LEASE, TASK, claim, claimed, find, put, request

from duly.errors import StoreUnavailable
from duly.job import Claim, Clash, State
from duly.lifecycle import Done, Settled
from duly.stores.contract import Selection, Settlement, WorkerCard
from duly.stores.postgres import PostgresStore

SOON = 30.0
"""Seconds: longer than a worker waits for a lock, shorter than anybody's patience."""


@pytest.fixture(
    params=[IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ], ids=lambda level: level.name
)
def body(request: pytest.FixtureRequest, connection: psycopg.Connection) -> psycopg.Connection:
    """The body's transaction, in either isolation."""
    connection.isolation_level = request.param
    return connection


@pytest.fixture
def charges(url: str, schema: str, store: PostgresStore) -> Iterator[sql.Identifier]:
    """A table of the user's."""
    name = sql.Identifier(schema, "charges")
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(sql.SQL("create table {} (amount int)").format(name))
        yield name
        admin.execute(sql.SQL("drop table {}").format(name))


def charge(body: psycopg.Connection, charges: sql.Identifier) -> None:
    body.execute(sql.SQL("insert into {} values (7)").format(charges))


def charged(url: str, charges: sql.Identifier) -> int:
    with psycopg.connect(url) as reader:
        row = reader.execute(sql.SQL("select count(*) from {}").format(charges)).fetchone()
    return int(row[0]) if row else 0


def complete(store: PostgresStore, body: psycopg.Connection, lent: Claim, worker: str = "w1") -> Settled:
    [answer] = store.run_on(body, store.settle(worker, [Settlement(lent.fence, Done())]))
    return answer


def start(store: PostgresStore, key: str | None = KEY) -> Claim:
    put(store, request(key))
    [lent] = claim(store)
    return lent


def beat(store: PostgresStore, lent: Claim) -> None:
    card = WorkerCard("w1", "w1", "host", 1, datetime(2026, 1, 1, tzinfo=UTC), tasks=(TASK,))
    store.run(store.renew(card, [lent.fence], LEASE))


@pytest.mark.parametrize("key", [None, KEY], ids=["unkeyed", "keyed"])
def test_effect_and_completion_commit_together(
    store: PostgresStore, body: psycopg.Connection, charges: sql.Identifier, url: str, key: str | None
) -> None:
    lent = start(store, key)
    charge(body, charges)
    answer = complete(store, body, lent)

    before = (charged(url, charges), find(store, lent.id)[0].state)
    body.commit()

    assert answer is Settled.SETTLED
    assert before == (0, State.RUNNING)
    assert (charged(url, charges), find(store, lent.id)[0].state) == (1, State.DONE)


def test_a_rollback_takes_both_back(
    store: PostgresStore, body: psycopg.Connection, charges: sql.Identifier, url: str
) -> None:
    lent = start(store)
    charge(body, charges)
    complete(store, body, lent)

    body.rollback()

    assert (charged(url, charges), find(store, lent.id)[0].state) == (0, State.RUNNING)


def test_beats_progress_and_requests_behind_it_do_not_break_a_run(
    store: PostgresStore, body: psycopg.Connection, charges: sql.Identifier
) -> None:
    lent = start(store)
    charge(body, charges)
    beat(store, lent)
    store.run(store.report({lent.fence: "40 %"}))
    behind = request(KEY)
    put(store, behind)
    beat(store, lent)

    answer = complete(store, body, lent)
    body.commit()

    assert answer is Settled.SETTLED
    assert [got.id for got in claim(store)] == [behind.id]


def test_a_run_that_was_replaced_meanwhile_does_not_commit(
    store: PostgresStore, body: psycopg.Connection, charges: sql.Identifier, url: str
) -> None:
    lent = start(store)
    charge(body, charges)
    newer = replace(request(KEY), clash=Clash.REPLACE)
    put(store, newer)

    try:
        answer: object = complete(store, body, lent)
    except StoreUnavailable as refused:  # the older snapshot cannot see the newer request, only that one came
        answer = refused
    body.rollback()

    assert answer is Settled.SUPERSEDED or "could not serialize" in str(answer)
    assert charged(url, charges) == 0
    assert find(store, lent.id)[0].state is State.RUNNING


def test_a_zombie_is_refused(store: PostgresStore, body: psycopg.Connection, charges: sql.Identifier) -> None:
    put(store, request())
    [frozen] = claimed(store, "w1", lease=timedelta(seconds=1)).claims
    charge(body, charges)
    store.run(store.leave("w1"))
    [fresh] = claim(store, "w2")

    try:
        answer: object = complete(store, body, frozen)
    except StoreUnavailable as refused:
        answer = refused
    body.rollback()

    assert fresh.id == frozen.id
    assert answer is Settled.LOST or "could not serialize" in str(answer)


def test_nobody_is_held_up_while_the_body_runs(
    store: PostgresStore, body: psycopg.Connection, charges: sql.Identifier
) -> None:
    lent = start(store)
    charge(body, charges)

    put(store, request("other"), request())
    others = claim(store, "w2")
    store.run(store.prune(10))

    assert len(others) == 2
    assert complete(store, body, lent) is Settled.SETTLED
    body.commit()
    assert store.run(store.count(Selection(states=(State.DONE,)))) == 1


def test_while_the_commit_is_pending_a_settle_elsewhere_is_busy(
    store: PostgresStore, other: PostgresStore, body: psycopg.Connection, charges: sql.Identifier
) -> None:
    lent = start(store)
    charge(body, charges)
    complete(store, body, lent)

    meanwhile = other.run(other.settle("w1", [Settlement(lent.fence, Done())]))
    body.commit()

    assert meanwhile == [Settled.BUSY]
    assert other.run(other.settle("w1", [Settlement(lent.fence, Done())])) == [Settled.SETTLED]


def test_a_recovered_job_waits_for_no_open_transaction_and_keeps_no_claim_waiting(
    store: PostgresStore, other: PostgresStore, body: psycopg.Connection, charges: sql.Identifier
) -> None:
    lent = start(store)
    charge(body, charges)
    complete(store, body, lent)  # and then its process freezes before the COMMIT
    other.run(other.leave("w1"))
    put(other, request("other"))

    began = time.monotonic()
    while_open = claim(other, "w2")
    took = time.monotonic() - began
    body.rollback()
    afterwards = claim(other, "w2")

    assert [one.key for one in while_open] == ["other"]
    assert took < SOON
    assert [(one.id, one.epoch) for one in afterwards] == [(lent.id, lent.epoch + 1)]
