"""Perpetual jobs and their markers: what was stopped on purpose stays stopped."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

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
    find,
    look,
    put_one,
    replacing,
    request,
    revive,
    settle,
    start,
    waiting,
)

from duly.job import Clash, Decision, Keep, Request, State
from duly.lifecycle import Again, Crash, Defer, Fail, Stop, TryAgain, Verdict
from duly.stores.contract import Store
from duly.testing import VirtualClock


def seed() -> Request:
    return request(KEY, perpetual=True, clash=Clash.SEED)


def stop_it(store: Store) -> str:
    lent = start(store, request(KEY, perpetual=True))
    settle(store, lent, Stop())
    return lent.id


def cancel_it_waiting(store: Store) -> str:
    placed = put_one(store, request(KEY, perpetual=True))
    cancel(store, placed.id)
    return placed.id


def cancel_it_running(store: Store) -> str:
    lent = start(store, request(KEY, perpetual=True))
    cancel(store, lent.id)
    settle(store, lent, Again(after=MINUTE))
    return lent.id


STOPPED = [stop_it, cancel_it_waiting, cancel_it_running]
End = Callable[[Store], str]


def test_a_seed_creates_when_nothing_stands(store: Store) -> None:
    assert put_one(store, seed()).decision is Decision.CREATED


def test_a_seed_changes_nothing_about_a_job_that_waits(store: Store, clock: VirtualClock) -> None:
    first = put_one(store, request(KEY, perpetual=True, delay=HOUR, arguments="[[1],{}]"))

    second = put_one(store, seed())

    [job] = waiting(store)
    assert second == (first.id, first.generation, Decision.KEPT)
    assert (job.arguments, job.ready_at) == ("[[1],{}]", clock.now() + HOUR)


def test_a_seed_leaves_nothing_behind_a_job_that_runs(store: Store) -> None:
    lent = start(store, request(KEY, perpetual=True))

    assert put_one(store, seed()).decision is Decision.KEPT
    settle(store, lent)
    assert claim_all(store) == []


@pytest.mark.parametrize("end", STOPPED)
def test_a_seed_respects_what_was_stopped_on_purpose(store: Store, end: End) -> None:
    end(store)

    assert put_one(store, seed()).decision is Decision.SKIPPED
    assert waiting(store) == []


def test_a_cancelled_run_whose_lease_ran_out_stays_stopped(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request(KEY, perpetual=True))
    cancel(store, lent.id)
    clock.advance(LEASE)
    assert claim_all(store, "w2") == []

    assert put_one(store, seed()).decision is Decision.SKIPPED


@pytest.mark.parametrize("end", STOPPED)
def test_pruning_never_removes_a_marker(store: Store, clock: VirtualClock, end: End) -> None:
    end(store)
    clock.advance(timedelta(days=400))

    pruned = store.run(store.prune(100))

    assert (pruned, find(store)) == (1, [])
    assert put_one(store, seed()).decision is Decision.SKIPPED


@pytest.mark.parametrize(
    "wanted", [request(KEY, perpetual=True), replacing(perpetual=True)], ids=["add", "replace"]
)
def test_a_new_request_clears_the_marker(store: Store, wanted: Request) -> None:
    stop_it(store)
    placed = put_one(store, wanted)
    delete(store, placed.id)

    assert placed.decision is Decision.CREATED
    assert put_one(store, seed()).decision is Decision.CREATED


def test_an_operators_retry_clears_the_marker(store: Store) -> None:
    stopped = stop_it(store)
    revive(store, stopped)
    delete(store, stopped)

    assert put_one(store, seed()).decision is Decision.CREATED


def test_a_job_that_was_deleted_may_be_seeded_again(store: Store) -> None:
    waits = put_one(store, seed())
    delete(store, waits.id)
    second = put_one(store, seed())
    runs = claim_one(store)
    delete(store, runs.id)
    settle(store, runs, Again(after=MINUTE))

    assert second.decision is Decision.CREATED
    assert put_one(store, seed()).decision is Decision.CREATED


def test_a_stop_that_yields_to_a_newer_request_leaves_no_marker(store: Store) -> None:
    older = start(store, request(KEY, perpetual=True))
    newer = put_one(store, request(KEY, perpetual=True))
    settle(store, older, Stop())
    delete(store, newer.id)

    assert put_one(store, seed()).decision is Decision.CREATED


def test_a_job_that_failed_may_be_seeded_again(store: Store) -> None:
    lent = start(store, request(KEY, perpetual=True))
    settle(store, lent, Fail("boom"))

    assert put_one(store, seed()).decision is Decision.CREATED


def test_a_job_that_is_not_perpetual_leaves_no_marker(store: Store) -> None:
    placed = put_one(store, request(KEY))
    cancel(store, placed.id)

    assert put_one(store, request(KEY, clash=Clash.SEED)).decision is Decision.CREATED


def test_stop_ends_as_done_and_keeps_the_error_of_the_last_cycle(store: Store) -> None:
    lent = start(store, request(KEY, perpetual=True))

    settle(store, lent, Stop(error="boom"))

    job = look(store, lent.id)
    assert (job.state, job.error) == (State.DONE, "boom")


# --- cycles -------------------------------------------------------------------------------------


def test_every_cycle_starts_with_fresh_budgets_and_a_new_idempotency_key(
    store: Store, clock: VirtualClock
) -> None:
    first = start(store, request(KEY, perpetual=True))
    settle(store, first, TryAgain(timedelta(0), "boom"))
    settle(store, claim_one(store), Defer(timedelta(0)))
    settle(store, claim_one(store), Crash("signal 9", counted=True))
    worn = claim_one(store)

    settle(store, worn, Again(at=clock.now() + MINUTE))
    clock.advance(MINUTE)
    fresh = claim_one(store)

    assert (worn.attempt, worn.deferrals, worn.crashes, worn.is_suspect) == (1, 1, 1, True)
    assert (fresh.attempt, fresh.deferrals, fresh.crashes, fresh.is_suspect) == (0, 0, 0, False)
    assert worn.idempotency_key == first.idempotency_key != fresh.idempotency_key
    assert fresh.due == clock.now()
    assert fresh.generation == first.generation


def test_again_may_carry_new_arguments_for_the_next_cycle(store: Store) -> None:
    lent = start(store, request(KEY, perpetual=True, arguments="[[1],{}]"))

    settle(store, lent, Again(), arguments="[[2],{}]")

    assert claim_one(store).arguments == "[[2],{}]"


def test_again_without_new_arguments_keeps_the_old_ones(store: Store) -> None:
    lent = start(store, request(KEY, perpetual=True, arguments="[[1],{}]"))

    settle(store, lent, Again())

    assert claim_one(store).arguments == "[[1],{}]"


def test_a_failed_cycle_is_recorded_and_the_next_one_comes(store: Store) -> None:
    lent = start(store, request(KEY, perpetual=True))

    settle(store, lent, Again(after=MINUTE, error="boom"))

    job = look(store, lent.id)
    assert (job.state, job.error) == (State.WAITING, "boom")


def test_a_failed_cycle_that_yields_ends_as_failed(store: Store) -> None:
    lent = start(store, request(KEY, perpetual=True))
    put_one(store, request(KEY, perpetual=True))

    settle(store, lent, Again(error="boom"))

    job = look(store, lent.id)
    assert (job.state, job.error) == (State.FAILED, "boom")


def test_every_cycle_has_its_own_time_to_expire_counted_from_its_due_time(
    store: Store, clock: VirtualClock
) -> None:
    lent = start(store, request(KEY, perpetual=True, expires_after=MINUTE))
    settle(store, lent, Again(after=HOUR))
    due = clock.now() + HOUR
    clock.advance(HOUR + MINUTE / 2)

    second = claim_one(store)

    assert (second.id, second.due) == (lent.id, due)
    assert look(store, lent.id).expires_at == due + MINUTE


def test_a_cycle_that_nobody_took_in_time_expires(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request(KEY, perpetual=True, expires_after=MINUTE))
    settle(store, lent, Again(at=clock.now() + HOUR))
    clock.advance(HOUR + MINUTE)

    assert claim_all(store) == []
    job = look(store, lent.id)
    assert (job.state, job.reason) == (State.SKIPPED, "expired")


def test_a_cycle_after_a_merged_request_expires_as_that_request_asked(
    store: Store, clock: VirtualClock
) -> None:
    put_one(store, request(KEY, perpetual=True, expires_after=MINUTE))
    put_one(store, request(KEY, perpetual=True, expires_after=HOUR))
    lent = claim_one(store)

    settle(store, lent, Again(after=MINUTE))

    assert look(store, lent.id).expires_at == clock.now() + MINUTE + HOUR


@pytest.mark.parametrize("verdict", [TryAgain(HOUR, "boom"), Defer(HOUR)], ids=["retry", "defer"])
def test_a_wait_within_a_cycle_does_not_move_the_time_it_expires(
    store: Store, clock: VirtualClock, verdict: Verdict
) -> None:
    lent = start(store, request(KEY, perpetual=True, expires_after=MINUTE))

    settle(store, lent, verdict)

    assert look(store, lent.id).expires_at == clock.now() + MINUTE


def test_a_live_perpetual_is_never_pruned(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request(KEY, perpetual=True, keep=Keep(done=timedelta(0), failed=timedelta(0))))
    settle(store, lent, Again(after=timedelta(days=500)))
    clock.advance(timedelta(days=400))

    assert store.run(store.prune(100)) == 0
