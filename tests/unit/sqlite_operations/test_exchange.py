"""Ends and loans in one statement, and what happens where an end needs a decision."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.sqlite_operations.arrange import TASK, ask, done, job, lend, request, requests
from tests.unit.sqlite_operations.driver import PlainStore

from duly.job import Claim, Request, State
from duly.lifecycle import Done, Settled
from duly.stores.contract import Lane, Settlement
from duly.stores.sqlite.operations.exchange import PAUSE, SQL

SAY = SQL["say"]


def put(store: PlainStore, *wanted: Request) -> list[str]:
    return [placed.id for placed in store.run(store.put(wanted))]


def test_a_turn_ends_and_lends_in_one_statement(store: PlainStore) -> None:
    first, second = put(store, *requests(2))
    claims = lend(store, limit=1)
    store.run(store.turn([], ask(limit=0)))
    store.texts.clear()

    turned = store.run(store.turn(done(claims), ask(limit=1)))

    assert turned.answers == [Settled.SETTLED]
    assert [claim.id for claim in turned.claimed.claims] == [second]
    assert (job(store, first).state, job(store, second).state) == (State.DONE, State.RUNNING)
    assert [line.event for line in job(store, first).history] == ["done"]
    assert (
        sum(not text.lstrip().startswith("select") for text in store.texts if text != SAY) <= 2
    )  # made once


def test_whoever_takes_a_turn_does_something_else_while_it_lends(store: PlainStore) -> None:
    """Also without ends: a worker whose loop stood still then had all its runs end before the next turn."""
    put(store, *requests(3))

    claims = store.run(store.turn([], ask(limit=1))).claimed.claims
    without_ends, store.lengthy = store.lengthy, []
    store.run(store.turn(done(claims), ask(limit=1)))

    assert (len(without_ends), set(store.lengthy)) == (1, {SAY})


def test_the_second_turn_of_a_connection_finds_everything_made(store: PlainStore) -> None:
    put(store, *requests(3))
    claims: Sequence[Claim] = lend(store, limit=1)
    claims = store.run(store.turn(done(claims), ask(limit=1))).claimed.claims
    store.texts.clear()

    store.run(store.turn(done(claims), ask(limit=1)))

    assert [text for text in store.texts if not text.lstrip().startswith("select")] == [SAY]


def test_an_end_that_needs_a_decision_comes_before_what_is_lent(store: PlainStore) -> None:
    plain, keyed = put(store, request(), request(key="k"))
    claims = lend(store, limit=2)
    (queued,) = put(store, request(key="k"))

    turned = store.run(store.turn(done(claims), ask(limit=1)))

    assert turned.answers == [Settled.SETTLED, Settled.SETTLED]
    assert [claim.id for claim in turned.claimed.claims] == [queued]
    for ended in (plain, keyed):
        assert [line.event for line in job(store, ended).history] == ["done"]


def test_a_lost_claim_among_the_ends_costs_the_others_nothing(store: PlainStore) -> None:
    put(store, *requests(3))
    kept, lost = lend(store, limit=2)
    late = Settlement(lost.fence._replace(epoch=lost.epoch + 1), Done())

    turned = store.run(store.turn([*done([kept]), late], ask(limit=1)))

    assert turned.answers == [Settled.SETTLED, Settled.LOST]
    assert len(turned.claimed.claims) == 1
    assert job(store, lost.id).state is State.RUNNING


def test_what_ended_makes_room_in_a_lane_with_a_limit(store: PlainStore) -> None:
    put(store, *requests(2))
    lane = Lane(TASK, concurrency=1)
    [claim] = store.run(store.claim(ask("w1", lane))).claims

    turned = store.run(store.turn(done([claim]), ask("w1", lane)))

    assert len(turned.claimed.claims) == 1


def test_a_turn_that_was_rolled_back_leaves_nothing_half_made(store: PlainStore) -> None:
    put(store, *requests(3))
    claims = lend(store, limit=1)
    store.connection.execute("begin immediate")
    store.perform(store.turn(done(claims), ask(limit=1)))
    store.connection.execute("rollback")

    turned = store.run(store.turn(done(claims), ask(limit=1)))

    assert turned.answers == [Settled.SETTLED]


@pytest.mark.parametrize("result", [None, '"kept"'])
def test_a_result_is_kept_in_the_turn_that_ends_its_run(store: PlainStore, result: str | None) -> None:
    put(store, *requests(2))
    [claim] = lend(store, limit=1)

    store.run(store.turn(done([claim], Done(result)), ask(limit=1)))

    assert job(store, claim.id).result == result


def test_where_ends_needed_decisions_the_next_turns_do_not_try_without(store: PlainStore) -> None:
    put(store, *requests(3 * PAUSE), request(key="k", priority=1))
    claims: Sequence[Claim] = lend(store, limit=1)
    put(store, request(key="k", priority=-1))
    tried: list[bool] = []

    for _ in range(PAUSE + 3):
        store.texts.clear()
        claims = store.run(store.turn(done(claims), ask(limit=1))).claimed.claims
        tried.append(SAY in store.texts)

    assert tried == [True, *[False] * PAUSE, True, True]
