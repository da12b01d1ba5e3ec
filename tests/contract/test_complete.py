"""settle inside somebody's transaction: the completion is part of it, and says whether it may commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.contract.arrange import KEY, LEASE, claim_one, look, put, replacing, request
from tests.contract.stores import STORES
from tests.servers import postgres_url

from duly.job import State
from duly.lifecycle import Again, Done, Settled, Verdict
from duly.stores.contract import Amendment, Cancel, Delete, Selection, Settlement, Store
from duly.testing import VirtualClock


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: VirtualClock) -> Iterator[Store]:
    made = STORES[request.param](tmp_path, clock)
    made.open()
    yield made
    made.close()


@pytest.fixture
def body(store: Store) -> Iterator[Any]:
    """A connection to the store's database, not yet in a transaction."""
    if store.url.startswith("sqlite"):
        path = store.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, isolation_level="IMMEDIATE")) as connection:
            yield connection
    else:
        with psycopg.connect(postgres_url()) as connection:
            yield connection


def complete(store: Store, body: Any, settlement: Settlement) -> Settled:
    [answer] = store.run_on(body, store.settle("w1", [settlement]))
    return answer


@pytest.mark.parametrize("key", [None, KEY], ids=["unkeyed", "keyed"])
@pytest.mark.parametrize(
    ("verdict", "state"), [(Done(), State.DONE), (Again(after=LEASE), State.WAITING)], ids=["done", "again"]
)
def test_a_completion_counts_when_its_transaction_commits(
    store: Store, body: Any, key: str | None, verdict: Verdict, state: State
) -> None:
    put(store, request(key))
    lent = claim_one(store)

    answer = complete(store, body, Settlement(lent.fence, verdict, is_conditional=True))
    body.commit()

    assert (answer, look(store, lent.id).state) == (Settled.SETTLED, state)


def test_a_completion_that_rolls_back_never_was(store: Store, body: Any) -> None:
    put(store, request())
    lent = claim_one(store)

    complete(store, body, Settlement(lent.fence, Done(), is_conditional=True))
    body.rollback()

    assert look(store, lent.id).state is State.RUNNING
    assert complete(store, body, Settlement(lent.fence, Done(), is_conditional=True)) is Settled.SETTLED


def test_a_completion_said_twice_in_one_transaction_counts_once(store: Store, body: Any) -> None:
    put(store, request())
    settlement = Settlement(claim_one(store).fence, Done(), is_conditional=True)

    answers = [complete(store, body, settlement), complete(store, body, settlement)]
    body.commit()

    assert answers == [Settled.SETTLED, Settled.SETTLED]
    assert [line.event for line in look(store, settlement.fence.id).history] == ["done"]


@pytest.mark.parametrize("order", [Cancel(), Delete()], ids=["cancel", "delete"])
def test_a_wish_to_stop_that_came_first_forbids_the_commit(store: Store, body: Any, order: Amendment) -> None:
    put(store, request())
    lent = claim_one(store)
    store.run(store.amend(Selection(ids=(lent.id,)), order))

    answer = complete(store, body, Settlement(lent.fence, Done(), is_conditional=True))
    body.rollback()

    assert answer is Settled.SUPERSEDED
    assert look(store, lent.id).state is State.RUNNING


def test_without_the_condition_a_cancelled_run_settles_as_cancelled(store: Store, body: Any) -> None:
    put(store, request())
    lent = claim_one(store)
    store.run(store.amend(Selection(ids=(lent.id,)), Cancel()))

    answer = complete(store, body, Settlement(lent.fence, Done()))
    body.commit()

    assert (answer, look(store, lent.id).state) == (Settled.SETTLED, State.CANCELLED)


def test_a_replaced_run_may_not_commit(store: Store, body: Any) -> None:
    put(store, request(KEY))
    lent = claim_one(store)
    put(store, replacing(KEY))

    answer = complete(store, body, Settlement(lent.fence, Done(), is_conditional=True))
    body.rollback()

    assert answer is Settled.SUPERSEDED


def test_a_run_that_was_lent_again_may_not_commit(store: Store, body: Any, clock: VirtualClock) -> None:
    put(store, request())
    frozen = claim_one(store, worker="w1")
    clock.advance(LEASE * 2)
    fresh = claim_one(store, worker="w2")

    answer = complete(store, body, Settlement(frozen.fence, Done(), is_conditional=True))
    body.rollback()

    assert (fresh.id, answer) == (frozen.id, Settled.LOST)
