"""Ticks of one schedule: each has a key of its own, and all share the serial that must not overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Unpack

import pytest
from tests.contract.arrange import (
    LEASE,
    MINUTE,
    SECOND,
    Fields,
    amend,
    beat,
    claim_all,
    claim_one,
    ids,
    look,
    put,
    put_one,
    request,
    settle,
    start,
    state,
    tick,
)

from duly.job import Claim, Decision, Overlap, Request, State
from duly.lifecycle import Defer, Release, Settled, TryAgain, Verdict
from duly.stores.contract import Order, Postpone, Store
from duly.testing import VirtualClock


def chained(number: int, **fields: Unpack[Fields]) -> Request:
    """A tick of a schedule that must run them all."""
    return replace(tick(number, **fields), overlap=Overlap.QUEUE_ALL)


def test_a_tick_waits_for_the_tick_before_it_though_their_keys_differ(store: Store) -> None:
    first = start(store, tick(1))
    second = put_one(store, tick(2))

    behind = claim_all(store, "w2")
    settle(store, first)

    assert second.decision is Decision.QUEUED
    assert behind == []
    assert claim_one(store, "w2").id == second.id


def test_the_same_tick_twice_is_one_job(store: Store) -> None:
    first = put_one(store, tick(1))

    second = put_one(store, tick(1))

    assert second == (first.id, first.generation, Decision.KEPT)


def test_queue_one_lets_a_later_tick_overtake_those_still_waiting(store: Store) -> None:
    running = start(store, tick(1))
    waiting = put_one(store, tick(2))

    latest = put_one(store, tick(3))

    overtaken = look(store, waiting.id)
    assert (overtaken.state, latest.decision) == (State.SKIPPED, Decision.QUEUED)
    assert "overtaken by nightly@3" in overtaken.reason
    assert settle(store, running) is Settled.SETTLED
    assert claim_one(store).id == latest.id


def test_queue_one_overtakes_a_waiting_tick_also_when_nothing_runs(store: Store) -> None:
    older = put_one(store, tick(1))

    newer = put_one(store, tick(2))

    assert state(store, older.id) is State.SKIPPED
    assert ids(claim_all(store)) == [newer.id]


def of_schedule(name: str, number: int) -> Request:
    """A tick of one of several schedules."""
    return replace(tick(number), key=f"{name}@{number}", serial=f"schedule|{name}")


def test_ticks_of_many_schedules_overtake_their_own_and_no_others(store: Store) -> None:
    names = ["a", "b", "c", "d"]
    older = [put_one(store, of_schedule(name, 1)).id for name in names]
    asked_before = of_schedule("b", 0)
    put_one(store, asked_before)  # it has overtaken b's, and its answer was lost on the way
    newest = put_one(store, of_schedule("b", 2)).id
    wanted = [
        of_schedule("a", 3),
        asked_before,
        of_schedule("c", 3),
        of_schedule("c", 4),
        of_schedule("e", 3),
    ]

    placed = put(store, *wanted)

    assert [one.decision for one in placed] == [Decision.CREATED, Decision.KEPT, *[Decision.CREATED] * 3]
    ended = [older[0], older[2], wanted[2].id]
    assert [look(store, one).reason for one in ended] == [
        f"overtaken by {key}" for key in ("a@3", "c@3", "c@4")
    ]
    assert {state(store, one) for one in ended} == {State.SKIPPED}
    assert ids(claim_all(store)) == [older[3], newest, wanted[0].id, wanted[3].id, wanted[4].id]


def test_a_tick_with_the_id_of_another_overtakes_nobody(store: Store) -> None:
    waiting = [put_one(store, of_schedule(name, 1)).id for name in ("a", "b")]
    first = of_schedule("a", 2)

    placed = put(store, first, replace(of_schedule("b", 2), id=first.id))

    assert [one.decision for one in placed] == [Decision.CREATED, Decision.KEPT]
    assert [state(store, one) for one in waiting] == [State.SKIPPED, State.WAITING]


def test_skip_drops_a_tick_while_another_runs(store: Store) -> None:
    first = start(store, tick(1, overlap=Overlap.SKIP))

    second = put_one(store, tick(2, overlap=Overlap.SKIP))

    assert second == (first.id, first.generation, Decision.SKIPPED)
    settle(store, first)
    assert claim_all(store) == []


def test_allow_runs_ticks_side_by_side_and_both_count(store: Store) -> None:
    first = start(store, tick(1, overlap=Overlap.ALLOW))
    put_one(store, tick(2, overlap=Overlap.ALLOW))

    second = claim_one(store, "w2")

    assert settle(store, first) is Settled.SETTLED
    assert settle(store, second) is Settled.SETTLED


def test_allow_keeps_every_tick_that_waits(store: Store) -> None:
    placed = put(store, *(tick(number, overlap=Overlap.ALLOW) for number in (1, 2, 3)))

    assert ids(claim_all(store)) == [answer.id for answer in placed]


def test_cancel_previous_stops_the_tick_that_runs_and_starts_the_later_one_after_it(store: Store) -> None:
    first = start(store, tick(1, overlap=Overlap.CANCEL_PREVIOUS))
    second = put_one(store, tick(2, overlap=Overlap.CANCEL_PREVIOUS))

    behind = claim_all(store, "w2")
    settle(store, first)

    assert behind == []
    assert state(store, first.id) is State.CANCELLED
    assert claim_one(store, "w2").id == second.id


# --- queue_all: a chain --------------------------------------------------------------------------


def drain(store: Store, worker: str = "w1") -> list[str]:
    """Run what is ready, one claim at a time, until nothing is; never two at once."""
    order: list[str] = []
    while lent := claim_all(store, worker):
        assert len(lent) == 1
        assert claim_all(store, "another") == []
        order += ids(lent)
        settle(store, lent[0])
    return order


def test_queue_all_keeps_every_tick_in_order_and_without_overlap(store: Store) -> None:
    placed = put(store, *(chained(number) for number in (1, 2, 3, 4)))

    assert drain(store) == [answer.id for answer in placed]


def test_queue_all_keeps_every_tick_that_came_while_one_ran(store: Store) -> None:
    running = start(store, chained(1))
    placed = put(store, *(chained(number) for number in (2, 3, 4)))
    settle(store, running)

    assert [answer.decision for answer in placed] == [Decision.QUEUED] * 3
    assert drain(store) == [answer.id for answer in placed]


@pytest.mark.parametrize(
    "verdict",
    [Release(), Defer(timedelta(0)), TryAgain(timedelta(0), "boom"), TryAgain(SECOND, "boom")],
    ids=repr,
)
def test_queue_all_keeps_the_order_when_a_tick_has_to_run_again(
    store: Store, clock: VirtualClock, verdict: Verdict
) -> None:
    first = start(store, chained(1))
    later = [answer.id for answer in put(store, chained(2), chained(3))]
    clock.advance(SECOND)
    settle(store, first, verdict)
    later.append(put_one(store, chained(4)).id)
    early: Sequence[Claim] = [] if verdict != TryAgain(SECOND, "boom") else claim_all(store)
    clock.advance(SECOND)

    assert early == []
    assert drain(store) == [first.id, *later]


def test_queue_all_keeps_the_order_when_a_worker_dies(store: Store, clock: VirtualClock) -> None:
    first = start(store, chained(1))
    second = put_one(store, chained(2))
    clock.advance(LEASE)
    third = put_one(store, chained(3))

    assert drain(store, "w2") == [first.id, second.id, third.id]


def test_queue_all_goes_on_when_the_tick_in_front_expires(store: Store, clock: VirtualClock) -> None:
    expired = put_one(store, chained(1, expires_after=SECOND))
    later = put(store, chained(2), chained(3))
    clock.advance(MINUTE)

    assert drain(store) == [answer.id for answer in later]
    assert state(store, expired.id) is State.SKIPPED


def test_a_serial_may_be_given_more_than_one_run_at_a_time(store: Store) -> None:
    placed = put(store, *(chained(number, per_key=2) for number in (1, 2, 3, 4)))

    first, second = claim_all(store)
    full = claim_all(store, "w2")
    settle(store, second)
    third = claim_one(store, "w2")

    assert full == []
    assert ids([first, second, third]) == [answer.id for answer in placed[:3]]


def test_parked_ticks_take_no_place_in_a_claim(store: Store) -> None:
    start(store, chained(1))
    put(store, *(chained(number, priority=9) for number in range(2, 10)))
    other = put_one(store, request())

    assert ids(claim_all(store, "w2", limit=1)) == [other.id]


def test_cancel_previous_also_stops_a_run_that_was_hurried(store: Store) -> None:
    first = start(store, tick(1, overlap=Overlap.CANCEL_PREVIOUS))
    amend(store, first.id, Postpone())

    put_one(store, tick(2, overlap=Overlap.CANCEL_PREVIOUS))

    assert beat(store, first).orders == {first.fence: Order.CANCEL}
