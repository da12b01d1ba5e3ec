"""amend: an operator's order over a selection — cancel, delete, retry, postpone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.contract.arrange import (
    HOUR,
    KEY,
    LEASE,
    MINUTE,
    amend,
    beat,
    begin,
    cancel,
    claim_all,
    claim_one,
    delete,
    events,
    exists,
    find,
    ids,
    look,
    put,
    put_one,
    request,
    revive,
    settle,
    start,
    state,
    waiting,
)

from duly.job import Decision, State
from duly.lifecycle import Again, Defer, Done, Fail, Settled, Skip, TryAgain
from duly.stores.contract import Amendment, Cancel, Delete, Order, Postpone, Revive, Selection, Store
from duly.testing import VirtualClock

ORDERS: list[Amendment] = [Cancel(), Delete(), Revive(), Postpone()]


# --- which jobs ----------------------------------------------------------------------------------


def test_an_order_reaches_every_selected_job_and_no_other(store: Store) -> None:
    put(store, request(task="a"), request(task="a"), request(id="other", task="b"))

    amended = store.run(store.amend(Selection(tasks=("a",)), Cancel()))

    assert [one.took_effect for one in amended] == [True, True]
    assert [job.id for job in find(store, Selection(states=(State.WAITING,)))] == ["other"]


def test_an_order_stops_at_its_limit_newest_first(store: Store) -> None:
    placed = put(store, *(request() for _ in range(4)))

    amended = store.run(store.amend(Selection(), Cancel(), limit=3))

    assert [one.id for one in amended] == [one.id for one in reversed(placed[1:])]
    assert state(store, placed[0].id) is State.WAITING


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: type(order).__name__)
def test_an_order_for_nobody_is_answered_with_nothing(store: Store, order: Amendment) -> None:
    assert store.run(store.amend(Selection(ids=("nobody",)), order)) == []


@pytest.mark.parametrize(
    ("order", "event"), [(Cancel(), "cancel"), (Postpone(), "postpone")], ids=["cancel", "postpone"]
)
def test_the_history_says_who_gave_the_order(store: Store, order: Amendment, event: str) -> None:
    placed = put_one(store, request())

    amend(store, placed.id, order, by="anna")

    line = look(store, placed.id).history[-1]
    assert (line.event, line.note) == (event, "anna")


# --- cancel --------------------------------------------------------------------------------------


def test_cancel_of_a_waiting_job_is_final(store: Store, clock: VirtualClock) -> None:
    placed = put_one(store, request())

    amended = cancel(store, placed.id)

    job = look(store, placed.id)
    assert amended.took_effect
    assert (job.state, job.finished_at) == (State.CANCELLED, clock.now())
    assert claim_all(store) == []


def test_cancel_of_a_running_job_is_a_wish(store: Store) -> None:
    lent = start(store, request(KEY))

    amended = cancel(store, lent.id)

    assert amended.took_effect
    assert state(store, lent.id) is State.RUNNING
    assert beat(store, lent).orders == {lent.fence: Order.CANCEL}
    assert not begin(store, lent)


def test_a_run_wished_to_stop_keeps_its_key_until_it_ends(store: Store) -> None:
    lent = start(store, request(KEY))
    cancel(store, lent.id)
    behind = put_one(store, request(KEY))

    too_early = claim_all(store, "w2")
    settle(store, lent)

    assert behind.decision is Decision.QUEUED
    assert too_early == []
    assert claim_one(store, "w2").id == behind.id


@pytest.mark.parametrize(
    "verdict",
    [Done("1"), Fail("boom"), Skip("x"), TryAgain(timedelta(0), "boom"), Again(), Defer(MINUTE)],
    ids=lambda verdict: type(verdict).__name__,
)
def test_a_run_wished_to_stop_ends_cancelled_whatever_the_body_returned(
    store: Store, verdict: Done | Fail | Skip | TryAgain | Again | Defer
) -> None:
    lent = start(store, request(KEY))
    cancel(store, lent.id)

    assert settle(store, lent, verdict) is Settled.SETTLED
    assert state(store, lent.id) is State.CANCELLED
    assert claim_all(store) == []


def test_cancel_of_a_job_lets_the_one_parked_behind_it_go(store: Store, clock: VirtualClock) -> None:
    older = start(store, request(KEY))
    behind = put_one(store, request(KEY))
    clock.advance(LEASE)
    claim_all(store, "w2", limit=0)  # recovers the older, lends nothing
    cancel(store, older.id)

    assert ids(claim_all(store, "w2")) == [behind.id]


@pytest.mark.parametrize("verdict", [Done(), Fail("boom"), Skip("x")], ids=repr)
def test_a_finished_job_cannot_be_cancelled_or_postponed(store: Store, verdict: Done | Fail | Skip) -> None:
    lent = start(store, request())
    settle(store, lent, verdict)
    before = look(store, lent.id)

    answers = [cancel(store, lent.id), amend(store, lent.id, Postpone())]

    assert [one.took_effect for one in answers] == [False, False]
    assert answers[0].reason == f"already {before.state}"
    assert look(store, lent.id) == before


# --- delete --------------------------------------------------------------------------------------


def test_delete_of_a_waiting_or_finished_job_makes_it_vanish(store: Store) -> None:
    settle(store, start(store, request(id="done")))
    put_one(store, request(id="waiting"))

    delete(store, "done")
    delete(store, "waiting")

    assert find(store) == []


def test_delete_of_a_running_job_stops_it_first(store: Store) -> None:
    lent = start(store, request(KEY))

    delete(store, lent.id)
    while_it_runs = state(store, lent.id)
    settle(store, lent, Fail("boom"))

    assert while_it_runs is State.RUNNING
    assert not exists(store, lent.id)


def test_a_cancel_after_a_delete_does_not_take_the_delete_back(store: Store) -> None:
    lent = start(store, request(KEY))
    delete(store, lent.id)
    cancel(store, lent.id)

    settle(store, lent)

    assert not exists(store, lent.id)


def test_delete_of_a_job_lets_the_one_parked_behind_it_go(store: Store, clock: VirtualClock) -> None:
    older = start(store, request(KEY))
    behind = put_one(store, request(KEY))
    clock.advance(LEASE)
    claim_all(store, "w2", limit=0)
    delete(store, older.id)

    assert ids(claim_all(store, "w2")) == [behind.id]


# --- an operator's retry -------------------------------------------------------------------------


def failed(store: Store, key: str | None = KEY) -> str:
    lent = start(store, request(key))
    settle(store, lent, TryAgain(timedelta(0), "boom"))
    settle(store, claim_one(store), Fail("boom"))
    return lent.id


def test_an_operators_retry_is_a_new_generation_with_fresh_budgets(store: Store, clock: VirtualClock) -> None:
    job_id = failed(store)
    before = look(store, job_id)
    clock.advance(HOUR)

    amended = revive(store, job_id)

    job = look(store, job_id)
    assert amended.took_effect
    assert job.generation > before.generation
    assert (job.state, job.ready_at, job.due) == (State.WAITING, clock.now(), clock.now())
    assert (job.attempt, job.crashes, job.deferrals) == (0, 0, 0)
    assert (job.error, job.finished_at, job.reason) == (None, None, "")
    assert events(store, job_id)[-1] == "revive"


def test_an_operators_retry_runs_with_a_new_idempotency_key_and_a_higher_epoch(store: Store) -> None:
    lent = start(store, request())
    settle(store, lent, Fail("boom"))
    revive(store, lent.id)

    again = claim_one(store)

    assert again.idempotency_key != lent.idempotency_key
    assert again.epoch > lent.epoch


def test_an_operators_retry_expires_counted_from_the_order(store: Store, clock: VirtualClock) -> None:
    late = put_one(store, request(expires_after=MINUTE))
    clock.advance(HOUR)
    assert claim_all(store) == []

    assert revive(store, late.id).took_effect
    assert look(store, late.id).expires_at == clock.now() + MINUTE
    clock.advance(MINUTE)
    assert claim_all(store) == []
    assert look(store, late.id).reason == "expired"


@pytest.mark.parametrize("newer_state", ["waiting", "running", "done", "cancelled"])
def test_an_operators_retry_is_refused_when_a_newer_request_exists(store: Store, newer_state: str) -> None:
    old = failed(store)
    newer = put_one(store, request(KEY))
    if newer_state in ("running", "done"):
        lent = claim_one(store)
        if newer_state == "done":
            settle(store, lent)
    elif newer_state == "cancelled":
        cancel(store, newer.id)

    amended = revive(store, old)

    assert not amended.took_effect
    assert newer.id in amended.reason
    assert state(store, old) is State.FAILED


def test_an_operators_retry_is_taken_when_the_newer_request_was_deleted(store: Store) -> None:
    old = failed(store)
    newer = put_one(store, request(KEY))
    delete(store, newer.id)

    assert revive(store, old).took_effect
    assert look(store, old).generation > newer.generation


def test_an_operators_retry_does_not_make_two_jobs_wait_for_one_key(store: Store) -> None:
    older = start(store, request(KEY))
    cancelled = put_one(store, request(KEY))
    cancel(store, cancelled.id)
    settle(store, older, TryAgain(HOUR, "boom"))

    amended = revive(store, cancelled.id)

    assert not amended.took_effect
    assert older.id in amended.reason
    assert [job.id for job in waiting(store)] == [older.id]


def test_an_operators_retry_waits_for_an_older_run_of_its_key(store: Store) -> None:
    older = start(store, request(KEY))
    cancelled = put_one(store, request(KEY))
    cancel(store, cancelled.id)
    assert revive(store, cancelled.id).took_effect

    too_early = claim_all(store, "w2")
    settle(store, older)

    assert too_early == []
    assert claim_one(store, "w2").id == cancelled.id


def test_a_live_job_cannot_be_retried(store: Store) -> None:
    placed = put_one(store, request())
    while_waiting = revive(store, placed.id)
    claim_one(store)

    assert not while_waiting.took_effect
    assert not revive(store, placed.id).took_effect
    assert look(store, placed.id).generation == placed.generation


# --- postpone ------------------------------------------------------------------------------------


def test_a_waiting_job_can_be_moved_to_another_time(store: Store, clock: VirtualClock) -> None:
    placed = put_one(store, request())

    amend(store, placed.id, Postpone(clock.now() + HOUR))

    assert claim_all(store) == []
    assert look(store, placed.id).ready_at == clock.now() + HOUR
    assert look(store, placed.id).due == clock.now()


def test_a_job_postponed_to_no_time_is_ready_now(store: Store) -> None:
    placed = put_one(store, request(delay=HOUR))

    amend(store, placed.id, Postpone())

    assert claim_one(store).id == placed.id


def test_a_parked_job_that_is_postponed_still_waits_for_its_key(store: Store) -> None:
    start(store, request(KEY))
    behind = put_one(store, request(KEY, delay=HOUR))

    amend(store, behind.id, Postpone())

    assert claim_all(store, "w2") == []


@pytest.mark.parametrize("verdict", [Again(after=HOUR), TryAgain(HOUR, "boom"), Defer(HOUR)], ids=repr)
def test_a_running_job_that_is_hurried_goes_on_at_once(
    store: Store, verdict: Again | TryAgain | Defer
) -> None:
    lent = start(store, request(KEY))
    amend(store, lent.id, Postpone())
    told = beat(store, lent)

    settle(store, lent, verdict)
    hurried = claim_one(store)
    settle(store, hurried, verdict)

    assert told.orders == {}
    assert hurried.id == lent.id
    assert claim_all(store) == []  # it is hurried once


def test_hurrying_does_not_bring_a_finished_job_back(store: Store) -> None:
    lent = start(store, request(KEY))
    amend(store, lent.id, Postpone())

    settle(store, lent, Done())

    assert state(store, lent.id) is State.DONE


def test_hurrying_does_not_undo_a_cancel(store: Store) -> None:
    lent = start(store, request(KEY))
    cancel(store, lent.id)
    amend(store, lent.id, Postpone())

    settle(store, lent, Again())

    assert state(store, lent.id) is State.CANCELLED
