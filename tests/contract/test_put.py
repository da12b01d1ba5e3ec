"""put: creates, keeps, queues or supersedes by key, and says which."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.contract.arrange import (
    HOUR,
    KEY,
    LEASE,
    MINUTE,
    SECOND,
    beat,
    begin,
    cancel,
    claim_all,
    claim_one,
    delete,
    find,
    ids,
    look,
    put,
    put_one,
    replacing,
    request,
    settle,
    start,
    state,
    waiting,
)

from duly.bundle import Bundle
from duly.job import Decision, Delivery, Overlap, State
from duly.lifecycle import Again, Crash, Defer, Settled, TryAgain
from duly.stores.contract import Order, Store
from duly.testing import VirtualClock

# --- requests without a key ---------------------------------------------------------------------


def test_a_request_becomes_a_waiting_job_with_everything_it_carried(
    store: Store, clock: VirtualClock
) -> None:
    wanted = request(
        KEY,
        arguments='[["ü"],{"a":1}]',
        queue="io",
        priority=7,
        context='{"trace":"1"}',
        delivery=Delivery.EXACTLY_ONCE,
        tick=clock.now(),
        expires_after=HOUR,
    )

    placed = put_one(store, wanted)

    job = look(store, wanted.id)
    assert placed == (wanted.id, job.generation, Decision.CREATED)
    assert (job.state, job.ready_at, job.due) == (State.WAITING, clock.now(), clock.now())
    assert (job.task, job.key, job.arguments, job.queue, job.priority) == (
        wanted.task,
        KEY,
        wanted.arguments,
        "io",
        7,
    )
    assert (job.context, job.delivery, job.tick) == (wanted.context, wanted.delivery, wanted.tick)
    assert (job.created_at, job.expires_at) == (clock.now(), clock.now() + HOUR)
    assert (job.epoch, job.attempt, job.crashes, job.deferrals, job.cycle) == (0, 0, 0, 0, 0)


def test_requests_without_a_key_never_meet(store: Store) -> None:
    placed = put(store, request(), request(), request())

    lent = claim_all(store)

    assert [answer.decision for answer in placed] == [Decision.CREATED] * 3
    assert ids(lent) == [answer.id for answer in placed]


def test_an_absolute_due_time_is_taken_as_it_is(store: Store, clock: VirtualClock) -> None:
    placed = put_one(store, request(run_after=clock.now() + HOUR))

    assert look(store, placed.id).ready_at == clock.now() + HOUR


def test_a_delay_is_added_to_the_clock_of_the_store(store: Store, clock: VirtualClock) -> None:
    placed = put_one(store, request(delay=timedelta(milliseconds=1500)))

    assert look(store, placed.id).ready_at == clock.now() + timedelta(milliseconds=1500)


def test_the_same_request_twice_is_one_job(store: Store) -> None:
    wanted = request()
    first = put_one(store, wanted)

    second = put_one(store, wanted)

    assert (second.id, second.generation, second.decision) == (wanted.id, first.generation, Decision.KEPT)
    assert len(find(store)) == 1


def test_an_id_twice_in_a_bundle_is_one_job(store: Store) -> None:
    wanted = request()

    first, second = store.run(store.put(Bundle(wanted, [wanted.id] * 2, [wanted.arguments] * 2)))

    assert (first.decision, second.decision) == (Decision.CREATED, Decision.KEPT)
    assert first.generation == second.generation
    assert len(find(store)) == 1


def test_a_batch_is_answered_in_its_own_order(store: Store) -> None:
    wanted = [request(), request(KEY), request(KEY), request("other")]

    placed = put(store, *wanted)

    assert [answer.id for answer in placed] == [wanted[0].id, wanted[1].id, wanted[1].id, wanted[3].id]
    assert [answer.decision.value for answer in placed] == ["created", "created", "kept", "created"]


def test_an_empty_batch_changes_nothing(store: Store) -> None:
    assert put(store) == []
    assert find(store) == []


def test_two_tasks_may_speak_of_one_key(store: Store) -> None:
    put(store, request(KEY, task="send"), request(KEY, task="receive"))

    assert len(waiting(store)) == 2


# --- generations --------------------------------------------------------------------------------


def test_generations_rise_with_every_accepted_request(store: Store) -> None:
    placed = put(store, request("a"), request(), request("b"), replacing("a"))

    generations = [answer.generation for answer in placed]
    assert generations == sorted(set(generations))


def test_a_generation_is_never_given_twice_even_after_everything_was_deleted(store: Store) -> None:
    first = put_one(store, request(KEY))
    delete(store, first.id)
    assert find(store) == []

    second = put_one(store, request(KEY))

    assert second.generation > first.generation


# --- while one is waiting -----------------------------------------------------------------------


def test_a_request_for_a_waiting_key_leaves_one_job_with_the_latest_arguments(store: Store) -> None:
    first = put_one(store, request(KEY, arguments="[[1],{}]"))

    second = put_one(store, request(KEY, arguments="[[2],{}]", context='{"by":"second"}'))

    [job] = waiting(store)
    assert second == (first.id, first.generation, Decision.KEPT)
    assert (job.id, job.arguments, job.context) == (first.id, "[[2],{}]", '{"by":"second"}')


@pytest.mark.parametrize(("first", "second"), [(HOUR, MINUTE), (MINUTE, HOUR)])
def test_a_request_for_a_waiting_key_keeps_the_earliest_time(
    store: Store, clock: VirtualClock, first: timedelta, second: timedelta
) -> None:
    put(store, request(KEY, delay=first), request(KEY, delay=second))

    [job] = waiting(store)
    assert (job.ready_at, job.due) == (clock.now() + MINUTE, clock.now() + MINUTE)


def test_a_request_for_a_waiting_key_brings_a_fresh_budget(store: Store) -> None:
    worn = start(store, request(KEY))
    settle(store, worn, TryAgain(timedelta(0), "boom"))
    settle(store, claim_one(store), Defer(timedelta(0)))
    settle(store, claim_one(store), Crash("signal 9", counted=True))

    put_one(store, request(KEY))

    fresh = claim_one(store)
    assert fresh.id == worn.id
    assert (fresh.attempt, fresh.deferrals, fresh.crashes) == (0, 0, 0)
    assert fresh.first_failure is None
    assert fresh.idempotency_key != worn.idempotency_key


def test_a_request_for_a_waiting_key_does_not_expire_earlier_than_it_asked(
    store: Store, clock: VirtualClock
) -> None:
    put_one(store, request(KEY, delay=HOUR, expires_after=2 * HOUR))
    clock.advance(HOUR)

    put_one(store, request(KEY, expires_after=MINUTE))

    assert look(store, claim_one(store).id).expires_at == clock.now() + MINUTE


# --- while one is running: the overlap policies --------------------------------------------------


def test_queue_one_leaves_exactly_one_more_run_however_many_ask(store: Store) -> None:
    older = start(store, request(KEY))
    placed = put(store, *(request(KEY, arguments=f"[[{number}],{{}}]") for number in range(3)))

    settle(store, older)
    queued = claim_one(store)

    assert [answer.decision.value for answer in placed] == ["queued", "kept", "kept"]
    assert (queued.id, queued.arguments) == (placed[0].id, "[[2],{}]")
    settle(store, queued)
    assert claim_all(store) == []


def test_a_queued_request_is_not_lent_while_the_older_runs(store: Store, clock: VirtualClock) -> None:
    older = start(store, request(KEY))
    queued = put_one(store, request(KEY))
    for _ in range(3):
        clock.advance(LEASE / 2)
        beat(store, older)

        assert claim_all(store, "w2") == []

    assert look(store, queued.id).is_parked


def test_a_queued_request_does_not_start_before_its_own_time(store: Store, clock: VirtualClock) -> None:
    older = start(store, request(KEY))
    queued = put_one(store, request(KEY, delay=MINUTE))
    settle(store, older)

    early = claim_all(store)
    clock.advance(MINUTE)

    assert early == []
    assert claim_one(store).id == queued.id


def test_skip_drops_a_request_while_the_key_runs(store: Store) -> None:
    older = start(store, request(KEY, overlap=Overlap.SKIP))

    placed = put_one(store, request(KEY, overlap=Overlap.SKIP))

    assert placed == (older.id, older.generation, Decision.SKIPPED)
    assert waiting(store) == []
    assert store.run(store.census()).suppressed == 1


def test_skip_takes_a_request_again_once_the_key_is_free(store: Store) -> None:
    settle(store, start(store, request(KEY, overlap=Overlap.SKIP)))

    placed = put_one(store, request(KEY, overlap=Overlap.SKIP))

    assert placed.decision is Decision.CREATED


def test_allow_starts_the_newer_at_once_while_the_older_runs_to_its_end(store: Store) -> None:
    older = start(store, request(KEY, overlap=Overlap.ALLOW))

    placed = put_one(store, request(KEY, overlap=Overlap.ALLOW))
    newer = claim_one(store)

    assert placed.decision is Decision.CREATED
    assert (newer.id, state(store, older.id)) == (placed.id, State.RUNNING)
    assert settle(store, older) is Settled.SUPERSEDED
    assert look(store, older.id).reason == f"superseded by {newer.id}"
    assert settle(store, newer) is Settled.SETTLED


def test_the_race_of_two_perpetual_runs_ends_with_the_newer_timing_in_force(
    store: Store, clock: VirtualClock
) -> None:
    a = start(store, request(KEY, perpetual=True, overlap=Overlap.ALLOW))
    put_one(store, replacing(perpetual=True, overlap=Overlap.ALLOW))
    b = claim_one(store, "w2")
    right_time = clock.now() + MINUTE
    settle(store, b, Again(at=right_time))

    late = settle(store, a, Again(at=clock.now() + HOUR), then=[replacing(perpetual=True, delay=HOUR)])

    assert late is Settled.SUPERSEDED
    [next_cycle] = waiting(store)
    assert (next_cycle.id, next_cycle.ready_at) == (b.id, right_time)


@pytest.mark.parametrize("per_key", [1, 0])
def test_cancel_previous_asks_the_older_to_stop_and_starts_the_newer_only_when_it_ended(
    store: Store, per_key: int
) -> None:
    older = start(store, request(KEY, overlap=Overlap.CANCEL_PREVIOUS, per_key=per_key))
    placed = put_one(store, request(KEY, overlap=Overlap.CANCEL_PREVIOUS, per_key=per_key))

    told = beat(store, older)
    too_early = claim_all(store, "w2")
    settle(store, older)

    assert placed.decision is Decision.REPLACED
    assert told.orders == {older.fence: Order.CANCEL}
    assert too_early == []
    assert state(store, older.id) is State.CANCELLED
    assert claim_one(store, "w2").id == placed.id


def test_cancel_previous_starts_the_newer_when_the_older_ones_lease_ended(
    store: Store, clock: VirtualClock
) -> None:
    older = start(store, request(KEY, overlap=Overlap.CANCEL_PREVIOUS))
    placed = put_one(store, request(KEY, overlap=Overlap.CANCEL_PREVIOUS))
    clock.advance(LEASE)

    assert claim_one(store, "w2").id == placed.id
    assert state(store, older.id) is State.CANCELLED


# --- replace ------------------------------------------------------------------------------------


def test_replace_cancels_the_waiting_job_and_stands_in_its_place(store: Store) -> None:
    older = put_one(store, request(KEY, delay=HOUR))

    newer = put_one(store, replacing())

    assert newer.decision is Decision.REPLACED
    assert newer.generation > older.generation
    assert (state(store, older.id), look(store, older.id).reason) == (
        State.CANCELLED,
        f"superseded by {newer.id}",
    )
    assert claim_one(store).id == newer.id


def test_replace_with_nothing_to_replace_creates(store: Store) -> None:
    assert put_one(store, replacing()).decision is Decision.CREATED


def test_replace_supersedes_the_run_and_the_request_queued_behind_it(store: Store) -> None:
    older = start(store, request(KEY))
    queued = put_one(store, request(KEY))

    newer = put_one(store, replacing())

    assert newer.decision is Decision.REPLACED
    assert state(store, queued.id) is State.CANCELLED
    assert settle(store, older) is Settled.SUPERSEDED
    assert claim_one(store).id == newer.id


def test_after_a_replace_the_older_run_may_not_begin(store: Store) -> None:
    older = start(store, request(KEY))
    put_one(store, replacing())

    assert not begin(store, older)
    assert beat(store, older).orders == {older.fence: Order.SUPERSEDED}


def test_after_a_replace_no_older_generation_is_ever_lent(store: Store, clock: VirtualClock) -> None:
    start(store, request(KEY))
    put_one(store, request(KEY))
    newer = put_one(store, replacing())
    lent: list[str] = []
    for _ in range(4):
        clock.advance(LEASE + SECOND)
        lent += ids(claim_all(store, "w2"))

    assert set(lent) == {newer.id}


def test_a_cancelled_job_is_never_lent(store: Store, clock: VirtualClock) -> None:
    placed = put_one(store, request(KEY, delay=MINUTE))
    cancel(store, placed.id)
    clock.advance(HOUR)

    assert claim_all(store) == []
