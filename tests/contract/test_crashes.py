"""Deaths: who is suspect, what counts, when a job is given up, and what at_most_once makes of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.contract.arrange import (
    KEY,
    LEASE,
    MINUTE,
    beat,
    begin,
    claim_all,
    claim_one,
    events,
    look,
    put_one,
    request,
    revive,
    settle,
    start,
    state,
)

from duly.job import Claim, Delivery, State
from duly.lifecycle import Again, Crash, Defer, Release, Settled, TryAgain, Verdict
from duly.stores.contract import Store
from duly.testing import VirtualClock

UNASKED: list[Verdict] = [Release(), Crash("signal 9", counted=False), TryAgain(timedelta(0), "boom")]
"""What would start a body over without its having asked for it."""


def die(store: Store, clock: VirtualClock, worker: str, *, isolated: bool) -> Claim:
    """Claim the job as `worker`, begin its body, and never be heard of again."""
    lent = claim_one(store, worker)
    beat(store, lent, worker=worker, host=f"host-of-{worker}")
    assert begin(store, lent, isolated=isolated)
    clock.advance(LEASE)
    return lent


def test_after_a_death_the_job_is_suspect_and_nothing_is_counted_yet(
    store: Store, clock: VirtualClock
) -> None:
    put_one(store, request())
    died = die(store, clock, "w1", isolated=False)

    again = claim_one(store, "w2")

    assert (died.is_suspect, again.is_suspect) == (False, True)
    assert (again.crashes, again.attempt) == (0, 0)


def test_deaths_outside_isolation_never_fail_a_job(store: Store, clock: VirtualClock) -> None:
    put_one(store, request())
    for number in range(8):
        die(store, clock, f"w{number}", isolated=False)

    assert claim_one(store, "last").crashes == 0


def test_deaths_in_isolation_are_counted(store: Store, clock: VirtualClock) -> None:
    put_one(store, request())
    die(store, clock, "w1", isolated=False)
    die(store, clock, "w2", isolated=True)
    die(store, clock, "w3", isolated=True)

    assert claim_one(store, "w4").crashes == 2


def test_the_third_death_in_isolation_fails_the_job_with_the_evidence(
    store: Store, clock: VirtualClock
) -> None:
    placed = put_one(store, request())
    for worker in ("w1", "w2", "w3"):
        die(store, clock, worker, isolated=True)

    assert claim_all(store, "w4") == []
    job = look(store, placed.id)
    assert (job.state, job.crashes) == (State.FAILED, 3)
    assert "lease ran out on host-of-w3" in (job.error or "")


def test_an_isolated_claim_that_never_began_is_not_counted(store: Store, clock: VirtualClock) -> None:
    put_one(store, request())
    die(store, clock, "w1", isolated=True)
    for worker in ("w2", "w3", "w4"):
        claim_one(store, worker)
        clock.advance(LEASE)

    assert claim_one(store, "w5").crashes == 1


def test_a_death_seen_by_the_parent_counts_as_it_says(store: Store) -> None:
    lent = start(store, request())
    settle(store, lent, Crash("signal 11 on host-1", counted=False))
    suspect = claim_one(store)
    settle(store, suspect, Crash("signal 11 on host-1", counted=True))
    counted = claim_one(store)

    assert (suspect.is_suspect, suspect.crashes) == (True, 0)
    assert (counted.is_suspect, counted.crashes) == (True, 1)
    assert "signal 11 on host-1" in (look(store, lent.id).error or "")


def test_the_third_counted_death_fails_the_job_also_when_the_parent_saw_it(store: Store) -> None:
    put_one(store, request(KEY))
    for _ in range(2):
        settle(store, claim_one(store), Crash("signal 11 on host-1", counted=True))
    last = claim_one(store)
    put_one(store, request(KEY))

    settle(store, last, Crash("signal 11 on host-1", counted=True))

    job = look(store, last.id)
    assert (job.state, job.crashes) == (State.FAILED, 3)
    assert "signal 11 on host-1" in (job.error or "")


def test_deaths_that_do_not_count_never_fail_a_job(store: Store) -> None:
    put_one(store, request())
    for _ in range(8):
        settle(store, claim_one(store), Crash("signal 9", counted=False))

    assert claim_one(store).crashes == 0


def test_a_death_counts_no_attempt(store: Store, clock: VirtualClock) -> None:
    put_one(store, request())
    die(store, clock, "w1", isolated=True)

    assert claim_one(store, "w2").attempt == 0


def test_a_new_cycle_forgets_the_deaths(store: Store, clock: VirtualClock) -> None:
    put_one(store, request(KEY, perpetual=True))
    die(store, clock, "w1", isolated=True)
    settle(store, claim_one(store, "w2"), Again())

    fresh = claim_one(store, "w2")

    assert (fresh.crashes, fresh.is_suspect) == (0, False)


def test_a_perpetual_goes_on_however_often_its_worker_dies(store: Store, clock: VirtualClock) -> None:
    placed = put_one(store, request(KEY, perpetual=True))
    for number in range(5):
        die(store, clock, f"w{number}", isolated=True)

    again = claim_one(store, "last")

    assert (again.id, again.crashes) == (placed.id, 5)
    assert settle(store, again, Again()) is Settled.SETTLED


def test_changed_arguments_forget_the_deaths(store: Store, clock: VirtualClock) -> None:
    put_one(store, request(KEY))
    for worker in ("w1", "w2"):
        die(store, clock, worker, isolated=True)
    settle(store, claim_one(store, "w3"), Release())

    put_one(store, request(KEY, arguments="[[2],{}]"))

    assert claim_one(store, "w3").crashes == 0


def test_a_lost_lease_is_written_into_the_history_with_the_host(store: Store, clock: VirtualClock) -> None:
    placed = put_one(store, request())
    die(store, clock, "w1", isolated=False)
    claim_one(store, "w2")

    [line] = [line for line in look(store, placed.id).history if line.event == "lease ran out"]

    assert line.note == "lease ran out on host-of-w1"
    assert (line.epoch, line.worker) == (1, "w1")


# --- at_most_once --------------------------------------------------------------------------------


def test_a_started_at_most_once_body_whose_lease_ran_out_is_interrupted(
    store: Store, clock: VirtualClock
) -> None:
    placed = put_one(store, request(delivery=Delivery.AT_MOST_ONCE))
    die(store, clock, "w1", isolated=False)

    assert claim_all(store, "w2") == []
    job = look(store, placed.id)
    assert (job.state, job.reason) == (State.FAILED, "interrupted, outcome unknown")


@pytest.mark.parametrize("verdict", UNASKED, ids=lambda verdict: type(verdict).__name__)
def test_a_started_at_most_once_body_is_never_started_again(store: Store, verdict: Verdict) -> None:
    lent = start(store, request(KEY, delivery=Delivery.AT_MOST_ONCE))
    begin(store, lent)

    assert settle(store, lent, verdict) is Settled.SETTLED

    job = look(store, lent.id)
    assert (job.state, job.reason) == (State.FAILED, "interrupted, outcome unknown")
    assert claim_all(store) == []


def test_an_interrupted_run_is_not_absorbed_by_the_request_behind_it(store: Store) -> None:
    lent = start(store, request(KEY, delivery=Delivery.AT_MOST_ONCE))
    begin(store, lent)
    behind = put_one(store, request(KEY, delivery=Delivery.AT_MOST_ONCE))

    settle(store, lent, Release())

    assert look(store, lent.id).reason == "interrupted, outcome unknown"
    assert claim_one(store).id == behind.id


def test_an_at_most_once_claim_handed_back_before_it_began_is_lent_again(store: Store) -> None:
    lent = start(store, request(delivery=Delivery.AT_MOST_ONCE))

    settle(store, lent, Release())

    assert claim_one(store).id == lent.id


def test_an_at_most_once_body_that_asks_to_wait_is_lent_again(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request(delivery=Delivery.AT_MOST_ONCE))
    begin(store, lent)
    settle(store, lent, Defer(MINUTE))
    clock.advance(MINUTE)

    assert claim_one(store).id == lent.id


def test_an_operator_may_send_an_interrupted_job_again_and_its_next_claim_has_not_begun(
    store: Store, clock: VirtualClock
) -> None:
    placed = put_one(store, request(delivery=Delivery.AT_MOST_ONCE))
    die(store, clock, "w1", isolated=False)
    claim_all(store, "w2")
    revive(store, placed.id)
    claim_one(store, "w2")
    clock.advance(LEASE)

    assert claim_one(store, "w3").id == placed.id
    assert state(store, placed.id) is State.RUNNING


def test_a_body_started_under_at_most_once_whose_lease_ran_out_is_interrupted(
    store: Store, clock: VirtualClock
) -> None:
    lent = start(store, request())
    assert begin(store, lent, once=True)
    clock.advance(LEASE)

    assert claim_all(store, "w2") == []
    job = look(store, lent.id)
    assert (job.state, job.reason) == (State.FAILED, "interrupted, outcome unknown")
    assert job.delivery is Delivery.AT_MOST_ONCE


@pytest.mark.parametrize("verdict", UNASKED, ids=lambda verdict: type(verdict).__name__)
def test_a_body_started_under_at_most_once_is_never_started_again(store: Store, verdict: Verdict) -> None:
    lent = start(store, request(KEY))
    begin(store, lent, once=True)

    assert settle(store, lent, verdict) is Settled.SETTLED

    assert look(store, lent.id).reason == "interrupted, outcome unknown"
    assert claim_all(store) == []


def test_what_was_started_under_at_most_once_stays_so_for_its_next_start(
    store: Store, clock: VirtualClock
) -> None:
    first = start(store, request(KEY, perpetual=True))
    begin(store, first, once=True)
    settle(store, first, Again())
    begin(store, claim_one(store))
    clock.advance(LEASE)

    assert claim_all(store, "w2") == []
    assert look(store, first.id).reason == "interrupted, outcome unknown"


def test_a_start_under_at_most_once_concerns_only_the_claims_it_names(
    store: Store, clock: VirtualClock
) -> None:
    put_one(store, request())
    other = put_one(store, request())
    first, second = claim_all(store)
    begin(store, first, once=True)
    begin(store, second)
    clock.advance(LEASE)

    assert claim_one(store, "w2").id == other.id
    assert look(store, other.id).delivery is Delivery.AT_LEAST_ONCE


def test_a_refused_start_under_at_most_once_leaves_the_job_as_it_was(
    store: Store, clock: VirtualClock
) -> None:
    late = start(store, request())
    clock.advance(LEASE)
    claim_one(store, "w2")

    assert not begin(store, late, once=True)
    assert look(store, late.id).delivery is Delivery.AT_LEAST_ONCE


def test_an_exactly_once_body_that_died_is_lent_again(store: Store, clock: VirtualClock) -> None:
    placed = put_one(store, request(delivery=Delivery.EXACTLY_ONCE))
    die(store, clock, "w1", isolated=False)

    assert claim_one(store, "w2").id == placed.id
    assert "lease ran out" in events(store, placed.id)
