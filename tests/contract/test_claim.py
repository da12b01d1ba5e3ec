"""claim: lends ready jobs, in order, to a worker that knows them; never early, never twice."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.contract.arrange import (
    HOUR,
    KEY,
    LEASE,
    MINUTE,
    SECOND,
    TASK,
    ask,
    beat,
    claim,
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

from duly.job import Delivery, Overlap, State
from duly.lifecycle import Release, TryAgain
from duly.stores.contract import Lane, Rate, Scope, Store, Switch
from duly.testing import VirtualClock

# --- what a claim carries ------------------------------------------------------------------------


def test_a_claim_carries_what_the_run_needs(store: Store, clock: VirtualClock) -> None:
    wanted = request(
        KEY, arguments="[[1],{}]", queue="io", context='{"a":"b"}', tick=clock.now(), delay=SECOND
    )
    placed = put_one(store, wanted)
    clock.advance(MINUTE)

    lent = claim_one(store)

    assert (lent.id, lent.task, lent.queue, lent.key) == (wanted.id, TASK, "io", KEY)
    assert (lent.generation, lent.epoch) == (placed.generation, 1)
    assert (lent.arguments, lent.context, lent.tick) == (wanted.arguments, wanted.context, wanted.tick)
    assert (lent.attempt, lent.crashes, lent.deferrals, lent.cycle) == (0, 0, 0, 0)
    assert (lent.is_suspect, lent.first_failure) == (False, None)
    assert lent.due == clock.now() - MINUTE + SECOND


def test_a_lent_job_is_running_with_its_worker_until_the_end_of_the_lease(
    store: Store, clock: VirtualClock
) -> None:
    lent = start(store, request())

    job = look(store, lent.id)
    assert (job.state, job.worker, job.ready_at) == (State.RUNNING, "w1", clock.now() + LEASE)


def test_every_loan_raises_the_epoch_and_has_a_secret_of_its_own(store: Store) -> None:
    first = start(store, request())
    settle(store, first, Release())
    second = claim_one(store)

    assert (first.epoch, second.epoch) == (1, 2)
    assert first.nonce != second.nonce


# --- never early, never twice --------------------------------------------------------------------


def test_a_job_is_never_lent_before_its_time(store: Store, clock: VirtualClock) -> None:
    placed = put_one(store, request(delay=MINUTE))

    clock.advance(MINUTE - timedelta(milliseconds=1))
    early = claim_all(store)
    clock.advance(timedelta(milliseconds=1))

    assert early == []
    assert claim_one(store).id == placed.id


def test_a_retry_is_never_lent_before_its_time(store: Store, clock: VirtualClock) -> None:
    settle(store, start(store, request()), TryAgain(MINUTE, "boom"))

    clock.advance(MINUTE - SECOND)

    assert claim_all(store) == []


def test_a_job_on_loan_is_lent_to_nobody_else(store: Store) -> None:
    start(store, request())

    assert claim_all(store, "w1") == []
    assert claim_all(store, "w2") == []


def test_a_claim_lends_no_more_than_was_asked_for(store: Store) -> None:
    placed = put(store, *(request() for _ in range(5)))

    first = claim_all(store, limit=2)
    rest = claim_all(store, "w2")

    assert ids(first) == [answer.id for answer in placed[:2]]
    assert ids(rest) == [answer.id for answer in placed[2:]]


# --- order ---------------------------------------------------------------------------------------


def test_the_larger_priority_goes_first(store: Store) -> None:
    put(store, *(request(id=f"p{priority}", priority=priority) for priority in (0, -100, 100, 5)))

    assert ids(claim_all(store)) == ["p100", "p5", "p0", "p-100"]


def test_within_a_priority_the_job_that_is_ready_longest_goes_first(
    store: Store, clock: VirtualClock
) -> None:
    put(store, *(request(id=f"d{delay}", delay=delay * SECOND) for delay in (3, 1, 2)))
    clock.advance(MINUTE)

    assert ids(claim_all(store)) == ["d1", "d2", "d3"]


def test_equals_go_in_the_order_of_their_requests(store: Store) -> None:
    placed = put(store, *(request() for _ in range(10)))

    assert ids(claim_all(store)) == [answer.id for answer in placed]


def test_priority_and_time_rule_over_all_lanes_of_a_worker(store: Store, clock: VirtualClock) -> None:
    put(
        store,
        request(id="c", task="b", queue="y", delay=2 * SECOND),
        request(id="b", task="a", queue="x", delay=SECOND),
        request(id="a", task="b", queue="x", priority=1, delay=3 * SECOND),
        request(id="d", task="a", queue="y", delay=3 * SECOND),
    )
    clock.advance(MINUTE)

    assert ids(claim(store, ask(lanes=[Lane("a"), Lane("b")])).claims) == ["a", "b", "c", "d"]


# --- lanes ---------------------------------------------------------------------------------------


def test_a_task_the_worker_does_not_know_is_left_alone(store: Store) -> None:
    unknown = put_one(store, request(task="not deployed yet", priority=100))
    known = put_one(store, request())

    assert ids(claim_all(store)) == [known.id]
    job = look(store, unknown.id)
    assert (job.state, job.epoch, job.history) == (State.WAITING, 0, ())


def test_a_worker_takes_only_from_the_queues_it_serves(store: Store) -> None:
    put(store, request(id="io", queue="io"), request(id="cpu", queue="cpu"))

    assert ids(claim(store, ask(queues=frozenset({"cpu"}))).claims) == ["cpu"]


def test_a_worker_told_no_queues_serves_all(store: Store) -> None:
    put(store, request(id="io", queue="io"), request(id="cpu", queue="cpu"))

    assert ids(claim(store, ask(queues=None)).claims) == ["io", "cpu"]


def test_a_lane_on_any_queue_is_taken_whatever_the_worker_serves(store: Store) -> None:
    put(store, request(id="schedule", task="tick", queue="duly.schedules"), request(id="io", queue="io"))

    lanes = [Lane("tick", on_any_queue=True), Lane(TASK)]
    assert ids(claim(store, ask(lanes=lanes, queues=frozenset({"cpu"}))).claims) == ["schedule"]


# --- expiry --------------------------------------------------------------------------------------


def test_an_expired_job_is_skipped_instead_of_lent(store: Store, clock: VirtualClock) -> None:
    late = put_one(store, request(expires_after=MINUTE))
    clock.advance(MINUTE)

    assert claim_all(store) == []
    job = look(store, late.id)
    assert (job.state, job.reason, job.finished_at) == (State.SKIPPED, "expired", clock.now())


def test_a_job_is_lent_until_the_moment_it_expires(store: Store, clock: VirtualClock) -> None:
    late = put_one(store, request(expires_after=MINUTE))
    clock.advance(MINUTE - timedelta(milliseconds=1))

    assert claim_one(store).id == late.id


def test_a_running_job_does_not_expire(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request(expires_after=SECOND))
    clock.advance(5 * SECOND)
    claim_all(store, "w2")

    assert state(store, lent.id) is State.RUNNING


def test_an_expired_job_costs_no_place_in_the_claim(store: Store, clock: VirtualClock) -> None:
    put(store, *(request(priority=9, expires_after=SECOND) for _ in range(5)))
    wanted = put_one(store, request())
    clock.advance(MINUTE)

    assert ids(claim_all(store, limit=1)) == [wanted.id]


# --- over a death --------------------------------------------------------------------------------


def test_a_worker_that_just_came_back_from_an_outage_takes_nothing_over(
    store: Store, clock: VirtualClock
) -> None:
    lost = start(store, request())
    clock.advance(LEASE)

    patient = claim(store, ask("w2", takes_over=False)).claims

    assert patient == []
    assert claim_one(store, "w2").id == lost.id


def test_a_worker_that_left_gives_its_jobs_back_at_once(store: Store) -> None:
    lent = start(store, request())

    store.run(store.leave("w1"))

    assert claim_one(store, "w2").id == lent.id


def test_a_job_of_a_dead_worker_is_recovered_also_by_one_that_cannot_run_it(
    store: Store, clock: VirtualClock
) -> None:
    lent = start(store, request())
    clock.advance(LEASE)

    claim(store, ask("w2", lanes=[Lane("something else")]))

    assert state(store, lent.id) is State.WAITING


@pytest.mark.parametrize("delivery", list(Delivery))
def test_a_claim_that_never_began_is_lent_again_whatever_the_delivery(
    store: Store, clock: VirtualClock, delivery: Delivery
) -> None:
    lent = start(store, request(delivery=delivery))
    for worker in ("w2", "w3", "w4", "w5", "w6"):
        clock.advance(LEASE)
        again = claim_one(store, worker)

        assert (again.id, again.crashes) == (lent.id, 0)


# --- next_at: when asking again may find more ----------------------------------------------------


def test_with_nothing_to_wait_for_next_at_is_none(store: Store) -> None:
    assert claim(store).next_at is None


def test_next_at_is_the_next_due_time_of_a_lane_the_worker_serves(store: Store, clock: VirtualClock) -> None:
    put(
        store,
        request(delay=HOUR),
        request(delay=MINUTE),
        request(delay=SECOND, task="unknown"),
        request(delay=SECOND, queue="elsewhere"),
    )

    assert claim(store, ask(queues=frozenset({"default"}))).next_at == clock.now() + MINUTE


def test_next_at_is_now_when_more_may_be_ready(store: Store, clock: VirtualClock) -> None:
    put(store, request(), request())

    assert claim(store, ask(limit=1)).next_at == clock.now()


def test_next_at_is_the_end_of_another_workers_lease(store: Store, clock: VirtualClock) -> None:
    start(store, request(), "w1")
    clock.advance(SECOND)

    assert claim(store, ask("w2")).next_at == clock.now() - SECOND + LEASE


def test_next_at_does_not_wait_for_the_workers_own_lease(store: Store) -> None:
    start(store, request(), "w1")

    assert claim(store, ask("w1")).next_at is None


def test_next_at_is_the_end_of_a_throttle(store: Store, clock: VirtualClock) -> None:
    put_one(store, request())
    store.run(store.hold(Switch(Scope.TASK, TASK, clock.now() + MINUTE)))

    assert claim(store).next_at == clock.now() + MINUTE


def test_next_at_does_not_wait_for_a_paused_lane(store: Store, clock: VirtualClock) -> None:
    put(store, request(), request(delay=MINUTE))
    store.run(store.hold(Switch(Scope.TASK, TASK, None)))

    assert claim(store).next_at is None


def test_next_at_is_when_the_rate_allows_another_start(store: Store, clock: VirtualClock) -> None:
    put(store, request(), request())
    lanes = [Lane(TASK, rate=Rate(1, MINUTE))]
    clock.advance(SECOND)

    assert claim(store, ask(lanes=lanes)).next_at == clock.now() + MINUTE


def test_next_at_does_not_wait_for_a_parked_job(store: Store, clock: VirtualClock) -> None:
    older = start(store, request(KEY))
    put_one(store, request(KEY, delay=MINUTE))
    beat(store, older)

    assert claim(store, ask("w1")).next_at is None


def test_next_at_sees_the_job_that_an_expired_one_held_back(store: Store, clock: VirtualClock) -> None:
    put_one(store, tick(1, overlap=Overlap.QUEUE_ALL, expires_after=SECOND))
    held_back = put_one(store, tick(2, overlap=Overlap.QUEUE_ALL, delay=MINUTE))
    clock.advance(SECOND)

    assert claim(store).next_at == look(store, held_back.id).ready_at
