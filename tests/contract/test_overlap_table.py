"""What a verdict means when the world has moved on: one test per cell of the overlap table.

Rows: what the older run says at its end. Columns: nothing newer, a request queued behind it, or the
run replaced, cancelled or deleted meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.contract.arrange import (
    HOUR,
    KEY,
    LEASE,
    MINUTE,
    cancel,
    claim_all,
    claim_one,
    delete,
    exists,
    find,
    ids,
    look,
    put_one,
    replacing,
    request,
    settle,
    start,
    state,
    waiting,
)

from duly.job import Decision, State
from duly.lifecycle import Again, Crash, Defer, Release, Settled, TryAgain, Verdict
from duly.stores.contract import Store
from duly.testing import VirtualClock

GOING_ON = [
    pytest.param(TryAgain(MINUTE, "boom"), id="retry"),
    pytest.param(Defer(MINUTE), id="defer"),
    pytest.param(Release(MINUTE), id="release"),
    pytest.param(Crash("signal 9", counted=True, after=MINUTE), id="crash"),
]
STOPPED = [pytest.param(cancel, id="cancelled"), pytest.param(delete, id="deleted")]
Stopper = Callable[[Store, str], object]


# --- Done ---------------------------------------------------------------------------------------


def test_done_with_nothing_newer_is_done(store: Store) -> None:
    older = start(store, request(KEY))

    assert settle(store, older) is Settled.SETTLED

    assert state(store, older.id) is State.DONE
    assert claim_all(store) == []


def test_done_with_a_request_behind_is_done_and_the_queued_one_becomes_ready(store: Store) -> None:
    older = start(store, request(KEY))
    queued = put_one(store, request(KEY))
    held_back = claim_all(store)

    assert settle(store, older) is Settled.SETTLED

    assert held_back == []
    assert queued.decision is Decision.QUEUED
    assert state(store, older.id) is State.DONE
    assert claim_one(store).id == queued.id


def test_done_after_a_replace_is_cancelled_with_the_id_that_superseded_it(store: Store) -> None:
    older = start(store, request(KEY))
    newer = put_one(store, replacing())

    assert settle(store, older) is Settled.SUPERSEDED

    job = look(store, older.id)
    assert job.state is State.CANCELLED
    assert job.reason == f"superseded by {newer.id}"
    assert job.result is None
    assert claim_one(store).id == newer.id


def test_done_after_a_cancel_is_cancelled_whatever_the_body_returned(store: Store) -> None:
    older = start(store, request(KEY))
    cancel(store, older.id)

    settle(store, older)

    assert state(store, older.id) is State.CANCELLED
    assert claim_all(store) == []


def test_done_after_a_delete_leaves_no_job(store: Store) -> None:
    older = start(store, request(KEY))
    delete(store, older.id)

    settle(store, older)

    assert find(store) == []


# --- Again --------------------------------------------------------------------------------------


def test_again_with_nothing_newer_waits_for_the_next_cycle(store: Store, clock: VirtualClock) -> None:
    older = start(store, request(KEY, perpetual=True))

    assert settle(store, older, Again(after=HOUR)) is Settled.SETTLED

    job = look(store, older.id)
    assert (job.state, job.ready_at) == (State.WAITING, clock.now() + HOUR)
    assert job.generation == older.generation


def test_again_with_a_request_behind_yields_to_it(store: Store, clock: VirtualClock) -> None:
    older = start(store, request(KEY, perpetual=True))
    queued = put_one(store, request(KEY, perpetual=True, delay=MINUTE))

    assert settle(store, older, Again(after=HOUR)) is Settled.SETTLED

    assert state(store, older.id) is State.DONE
    [next_cycle] = waiting(store)
    assert (next_cycle.id, next_cycle.ready_at) == (queued.id, clock.now() + MINUTE)


def test_again_after_a_replace_is_dropped_and_the_newer_timing_stands(
    store: Store, clock: VirtualClock
) -> None:
    older = start(store, request(KEY, perpetual=True))
    newer = put_one(store, replacing(perpetual=True, delay=MINUTE))

    assert settle(store, older, Again(after=HOUR)) is Settled.SUPERSEDED

    assert state(store, older.id) is State.CANCELLED
    [next_cycle] = waiting(store)
    assert (next_cycle.id, next_cycle.ready_at) == (newer.id, clock.now() + MINUTE)


@pytest.mark.parametrize("stop", STOPPED)
def test_again_of_a_stopped_run_is_dropped(store: Store, stop: Stopper) -> None:
    older = start(store, request(KEY, perpetual=True))
    stop(store, older.id)

    settle(store, older, Again(after=MINUTE))

    assert waiting(store) == []


# --- Retry, defer, Release (and a crash somebody saw) -------------------------------------------


@pytest.mark.parametrize("verdict", GOING_ON)
def test_going_on_with_nothing_newer_waits(store: Store, clock: VirtualClock, verdict: Verdict) -> None:
    older = start(store, request(KEY))

    assert settle(store, older, verdict) is Settled.SETTLED

    job = look(store, older.id)
    assert (job.state, job.ready_at) == (State.WAITING, clock.now() + MINUTE)
    assert (job.generation, job.due) == (older.generation, older.due)


@pytest.mark.parametrize("verdict", GOING_ON)
def test_going_on_is_absorbed_by_the_request_behind_with_a_fresh_budget(
    store: Store, verdict: Verdict
) -> None:
    older = start(store, request(KEY))
    settle(store, older, TryAgain(MINUTE * 0, "first failure"))
    older = claim_one(store)
    queued = put_one(store, request(KEY))

    assert settle(store, older, verdict) is Settled.SETTLED

    assert state(store, older.id) is State.CANCELLED
    next_run = claim_one(store)
    assert next_run.id == queued.id
    assert (next_run.attempt, next_run.crashes, next_run.deferrals) == (0, 0, 0)


@pytest.mark.parametrize("verdict", GOING_ON)
def test_going_on_after_a_replace_is_dropped(store: Store, verdict: Verdict) -> None:
    older = start(store, request(KEY))
    newer = put_one(store, replacing())

    assert settle(store, older, verdict) is Settled.SUPERSEDED

    assert state(store, older.id) is State.CANCELLED
    assert claim_one(store).id == newer.id


@pytest.mark.parametrize("stop", STOPPED)
@pytest.mark.parametrize("verdict", GOING_ON)
def test_going_on_of_a_stopped_run_is_dropped(store: Store, verdict: Verdict, stop: Stopper) -> None:
    older = start(store, request(KEY))
    stop(store, older.id)

    settle(store, older, verdict)

    assert waiting(store) == []


# --- the lease ran out --------------------------------------------------------------------------


def test_a_lease_that_ran_out_is_lent_again(store: Store, clock: VirtualClock) -> None:
    older = start(store, request(KEY))
    clock.advance(LEASE)

    again = claim_one(store, "w2")

    assert (again.id, again.generation, again.epoch) == (older.id, older.generation, older.epoch + 1)


def test_after_a_lost_lease_the_older_is_lent_again_before_the_request_behind_it(
    store: Store, clock: VirtualClock
) -> None:
    older = start(store, request(KEY))
    queued = put_one(store, request(KEY))
    clock.advance(LEASE)

    first = claim_one(store, "w2")
    settle(store, first)
    second = claim_one(store, "w2")

    assert [first.id, second.id] == [older.id, queued.id]


def test_after_a_lost_lease_a_replaced_run_is_not_lent_again_and_the_newer_starts(
    store: Store, clock: VirtualClock
) -> None:
    older = start(store, request(KEY))
    newer = put_one(store, replacing())
    clock.advance(LEASE)

    lent = claim_one(store, "w2")

    assert lent.id == newer.id
    assert look(store, older.id).reason == f"superseded by {newer.id}"


def test_after_a_lost_lease_a_cancelled_run_is_not_lent_again_and_the_newer_starts(
    store: Store, clock: VirtualClock
) -> None:
    older = start(store, request(KEY))
    cancel(store, older.id)
    newer = put_one(store, request(KEY))
    clock.advance(LEASE)

    lent = claim_all(store, "w2")

    assert ids(lent) == [newer.id]
    assert state(store, older.id) is State.CANCELLED


def test_after_a_lost_lease_a_deleted_run_is_gone_and_the_newer_starts(
    store: Store, clock: VirtualClock
) -> None:
    older = start(store, request(KEY))
    delete(store, older.id)
    newer = put_one(store, request(KEY))
    clock.advance(LEASE)

    lent = claim_all(store, "w2")

    assert ids(lent) == [newer.id]
    assert not exists(store, older.id)
