"""settle: per claim all or nothing — verdict, history line and follow-up requests, under the fence."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.contract.arrange import (
    HOUR,
    KEY,
    LEASE,
    MINUTE,
    SECOND,
    begin,
    cancel,
    claim_all,
    claim_one,
    delete,
    events,
    exists,
    find,
    look,
    put,
    put_one,
    replacing,
    request,
    revive,
    settle,
    start,
    state,
    waiting,
)

from duly.job import Claim, Clash, Delivery, Fence, Request, State
from duly.lifecycle import Again, Crash, Defer, Done, Fail, Release, Settled, Skip, Stop, TryAgain, Verdict
from duly.stores.contract import Settlement, Store
from duly.testing import VirtualClock

VERDICTS: list[Verdict] = [
    Done("1"),
    Again(after=HOUR),
    Stop(),
    TryAgain(HOUR, "boom"),
    Defer(HOUR),
    Release(HOUR),
    Crash("signal 9", counted=True),
    Fail("boom"),
    Skip("gone"),
]


def freeze_and_lend_again(store: Store, clock: VirtualClock) -> tuple[Claim, Claim]:
    """The same generation twice on loan: the frozen worker's claim, and the one in force."""
    frozen = start(store, request(KEY), "w1")
    clock.advance(LEASE)
    return frozen, claim_one(store, "w2")


# --- what each verdict writes --------------------------------------------------------------------


def test_done_ends_the_job_with_its_result(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request())
    clock.advance(SECOND)

    settle(store, lent, Done("42", keep_result=HOUR))

    job = look(store, lent.id)
    assert (job.state, job.result, job.error) == (State.DONE, "42", None)
    assert (job.finished_at, job.ready_at) == (clock.now(), None)


def test_done_after_failures_leaves_no_error(store: Store) -> None:
    settle(store, start(store, request()), TryAgain(timedelta(0), "boom"))
    lent = claim_one(store)

    settle(store, lent, Done())

    assert look(store, lent.id).error is None


def test_fail_keeps_the_error_and_the_reason(store: Store) -> None:
    lent = start(store, request())

    settle(store, lent, Fail("ValueError: boom", reason="hard limit exceeded"))

    job = look(store, lent.id)
    assert (job.state, job.error, job.reason) == (State.FAILED, "ValueError: boom", "hard limit exceeded")


def test_skip_says_why(store: Store) -> None:
    lent = start(store, request())

    settle(store, lent, Skip("the order is gone"))

    job = look(store, lent.id)
    assert (job.state, job.reason) == (State.SKIPPED, "the order is gone")


def test_a_retry_counts_an_attempt_and_remembers_the_first_failure(store: Store, clock: VirtualClock) -> None:
    first_failure = clock.now()
    settle(store, start(store, request()), TryAgain(MINUTE, "first"))
    clock.advance(MINUTE)
    settle(store, claim_one(store), TryAgain(MINUTE, "second"))
    clock.advance(MINUTE)

    third = claim_one(store)

    assert (third.attempt, third.deferrals, third.crashes) == (2, 0, 0)
    assert third.first_failure == first_failure
    assert look(store, third.id).error == "second"


def test_a_deferral_is_counted_apart_from_attempts(store: Store) -> None:
    settle(store, start(store, request()), Defer(timedelta(0)))

    lent = claim_one(store)

    assert (lent.attempt, lent.deferrals, lent.crashes) == (0, 1, 0)


def test_a_hand_back_counts_nothing(store: Store) -> None:
    settle(store, start(store, request()), Release(note="deploy"))

    lent = claim_one(store)

    assert (lent.attempt, lent.deferrals, lent.crashes, lent.is_suspect) == (0, 0, 0, False)
    assert look(store, lent.id).history[-1].note == "deploy"


def test_the_idempotency_key_is_stable_over_attempts_deferrals_crashes_and_hand_backs(
    store: Store, clock: VirtualClock
) -> None:
    lent = start(store, request())
    seen = {lent.idempotency_key}
    for verdict in (TryAgain(timedelta(0), "boom"), Defer(timedelta(0)), Crash("x", counted=True), Release()):
        settle(store, lent, verdict)
        lent = claim_one(store)
        seen.add(lent.idempotency_key)
    clock.advance(LEASE)
    seen.add(claim_one(store, "w2").idempotency_key)

    assert len(seen) == 1


def test_every_run_leaves_a_line_of_history(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request())
    settle(store, lent, TryAgain(timedelta(0), "boom"))
    second = claim_one(store)
    began = clock.now()
    clock.advance(SECOND)
    store.run(store.settle("w1", [Settlement(second.fence, Done(), started_at=began)]))

    first_line, last_line = look(store, lent.id).history

    assert (first_line.event, last_line.event) == ("retry", "done")
    assert (last_line.at, last_line.started_at) == (clock.now(), began)
    assert (last_line.epoch, last_line.generation, last_line.worker) == (2, lent.generation, "w1")


def test_a_batch_is_answered_claim_by_claim(store: Store) -> None:
    put(store, request(), request(), request(KEY))
    good, lost, replaced = claim_all(store)
    settle(store, lost, Release())
    put_one(store, replacing(KEY))

    answers = store.run(store.settle("w1", [Settlement(one.fence, Done()) for one in (lost, good, replaced)]))

    assert answers == [Settled.LOST, Settled.SETTLED, Settled.SUPERSEDED]


def test_an_empty_batch_is_answered_with_nothing(store: Store) -> None:
    assert store.run(store.settle("w1", [])) == []


# --- the fence -----------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", VERDICTS, ids=lambda verdict: type(verdict).__name__)
def test_a_zombie_of_the_same_generation_cannot_settle(
    store: Store, clock: VirtualClock, verdict: Verdict
) -> None:
    frozen, fresh = freeze_and_lend_again(store, clock)
    before = look(store, frozen.id)

    answer = settle(store, frozen, verdict, then=[request(), request(KEY)])

    after = look(store, frozen.id)
    assert answer is Settled.LOST
    assert (frozen.id, frozen.generation) == (fresh.id, fresh.generation)
    assert after.history[:-1] == before.history
    assert (after.state, after.epoch, after.error, after.ready_at) == (
        before.state,
        before.epoch,
        before.error,
        before.ready_at,
    )
    assert len(find(store)) == 1
    assert settle(store, fresh) is Settled.SETTLED


def test_the_epoch_is_compared(store: Store) -> None:
    lent = start(store, request())
    forged = lent._replace(epoch=lent.epoch + 1)

    assert settle(store, forged) is Settled.LOST
    assert settle(store, lent) is Settled.SETTLED


def test_the_nonce_is_compared_so_a_store_that_lost_writes_cannot_be_fooled(store: Store) -> None:
    lent = start(store, request())
    forged = lent._replace(nonce="0" * 16)

    assert settle(store, forged) is Settled.LOST
    assert settle(store, lent) is Settled.SETTLED


def test_a_settle_whose_answer_was_lost_is_answered_again_and_changes_nothing(store: Store) -> None:
    lent = start(store, request(KEY))
    follow_up = request()
    settle(store, lent, Done("first"), then=[follow_up])
    before = find(store)

    again = settle(store, lent, Done("first"), then=[follow_up])
    other = settle(store, lent, Fail("second"), then=[request()])

    assert (again, other) == (Settled.SETTLED, Settled.SETTLED)
    assert find(store) == before
    assert store.run(store.census()).refused == 0


def test_a_superseded_settle_whose_answer_was_lost_is_answered_again(store: Store) -> None:
    lent = start(store, request(KEY))
    put_one(store, replacing(KEY))
    settle(store, lent)

    assert settle(store, lent) is Settled.SUPERSEDED


def test_a_claim_that_did_not_end_the_job_is_not_taken_for_the_one_that_did(
    store: Store, clock: VirtualClock
) -> None:
    frozen, fresh = freeze_and_lend_again(store, clock)
    settle(store, fresh)

    assert settle(store, frozen) is Settled.LOST


def test_a_claim_from_before_an_operators_retry_did_not_end_what_came_after(store: Store) -> None:
    lent = start(store, request())
    settle(store, lent, Fail("boom"))
    revive(store, lent.id)
    cancel(store, lent.id)

    assert settle(store, lent) is Settled.LOST


@pytest.mark.parametrize("end", ["cancelled", "replaced", "interrupted"])
def test_a_zombie_of_a_job_that_its_lost_lease_ended_is_refused(
    store: Store, clock: VirtualClock, end: str
) -> None:
    delivery = Delivery.AT_MOST_ONCE if end == "interrupted" else Delivery.AT_LEAST_ONCE
    frozen = start(store, request(KEY, delivery=delivery))
    begin(store, frozen)
    if end == "cancelled":
        cancel(store, frozen.id)
    elif end == "replaced":
        put_one(store, replacing(KEY))
    clock.advance(LEASE)
    claim_all(store, "w2")

    assert settle(store, frozen) is Settled.LOST
    assert events(store, frozen.id)[-1] == "refused"


@pytest.mark.parametrize(
    "verdict", [Again(after=HOUR), TryAgain(HOUR, "x"), Defer(HOUR), Release(HOUR)], ids=repr
)
def test_a_claim_that_was_given_back_has_no_say_any_more(store: Store, verdict: Verdict) -> None:
    lent = start(store, request())
    settle(store, lent, verdict)

    assert settle(store, lent) is Settled.LOST
    assert state(store, lent.id) is State.WAITING


def test_a_zombie_cannot_settle_a_job_that_was_recovered_but_not_lent_yet(
    store: Store, clock: VirtualClock
) -> None:
    frozen = start(store, request(), "w1")
    clock.advance(LEASE)
    claim_all(store, "w2", limit=0)
    recovered = state(store, frozen.id)

    assert recovered is State.WAITING
    assert settle(store, frozen) is Settled.LOST


def test_a_late_settle_before_anybody_took_the_job_is_accepted(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request())
    clock.advance(LEASE + HOUR)

    assert settle(store, lent) is Settled.SETTLED


def test_a_zombie_cannot_settle_after_an_operators_retry(store: Store, clock: VirtualClock) -> None:
    frozen, fresh = freeze_and_lend_again(store, clock)
    settle(store, fresh, Fail("boom"))
    revive(store, fresh.id)

    assert settle(store, frozen) is Settled.LOST
    assert settle(store, fresh) is Settled.LOST
    assert state(store, fresh.id) is State.WAITING


def test_a_zombie_of_a_deleted_job_cannot_settle_the_next_job_of_its_key(
    store: Store, clock: VirtualClock
) -> None:
    frozen = start(store, request(KEY), "w1")
    delete(store, frozen.id)
    clock.advance(LEASE)
    assert claim_all(store, "w2") == []
    fresh = start(store, request(KEY), "w2")

    assert settle(store, frozen) is Settled.LOST
    assert (state(store, fresh.id), events(store, fresh.id)) == (State.RUNNING, [])


def test_a_fence_for_a_job_nobody_knows_is_lost(store: Store) -> None:
    unknown = Settlement(Fence("nobody", 1, "0" * 16), Done(), then=(request(),))

    assert store.run(store.settle("w1", [unknown])) == [Settled.LOST]
    assert find(store) == []


# --- a refused settle ----------------------------------------------------------------------------


def test_a_refused_settle_appends_a_line_to_the_history(store: Store, clock: VirtualClock) -> None:
    frozen, fresh = freeze_and_lend_again(store, clock)

    settle(store, frozen, worker="w1")

    line = look(store, fresh.id).history[-1]
    assert (line.event, line.at) == ("refused", clock.now())
    assert "w1" in line.note
    assert "Done" in line.note


def test_refusals_are_counted(store: Store, clock: VirtualClock) -> None:
    frozen, _ = freeze_and_lend_again(store, clock)
    settle(store, frozen)
    settle(store, frozen)

    assert store.run(store.census()).refused == 2


def test_superseded_verdicts_are_counted(store: Store) -> None:
    older = start(store, request(KEY))
    put_one(store, replacing(KEY))
    settle(store, older)

    assert store.run(store.census()).superseded == 1


# --- follow-up requests --------------------------------------------------------------------------


def test_follow_ups_are_put_together_with_the_verdict(store: Store) -> None:
    lent = start(store, request())
    follow_ups = [request("a"), request("b", delay=HOUR)]

    settle(store, lent, Done(), then=follow_ups)

    assert state(store, lent.id) is State.DONE
    assert claim_one(store).id == follow_ups[0].id
    assert state(store, follow_ups[1].id) is State.WAITING


def test_follow_ups_are_put_also_when_the_body_raised(store: Store) -> None:
    lent = start(store, request())
    follow_up = request("a")

    settle(store, lent, Fail("boom"), then=[follow_up])

    assert exists(store, follow_up.id)


@pytest.mark.parametrize("refused", ["lost", "superseded", "cancelled"])
def test_follow_ups_of_a_run_that_no_longer_counts_are_dropped(store: Store, refused: str) -> None:
    lent = start(store, request(KEY))
    if refused == "lost":
        settle(store, lent, Release())
    elif refused == "superseded":
        put_one(store, replacing(KEY))
    else:
        cancel(store, lent.id)
    follow_up = request("a")

    settle(store, lent, Done(), then=[follow_up])

    assert not exists(store, follow_up.id)


# --- a request for the run's own key --------------------------------------------------------------


@pytest.mark.parametrize("clash", [Clash.ADD, Clash.REPLACE])
def test_a_runs_own_request_never_supersedes_the_run_that_makes_it(store: Store, clash: Clash) -> None:
    lent = start(store, request(KEY))
    own = request(KEY, clash=clash, delay=MINUTE)

    assert settle(store, lent, Done("1"), then=[own]) is Settled.SETTLED

    assert (state(store, lent.id), look(store, lent.id).result) == (State.DONE, "1")
    assert [job.id for job in waiting(store)] == [own.id]


@pytest.mark.parametrize("clash", [Clash.ADD, Clash.REPLACE])
def test_a_runs_own_request_stands_also_when_the_body_raises(store: Store, clash: Clash) -> None:
    lent = start(store, request(KEY))
    own = request(KEY, clash=clash)

    settle(store, lent, Fail("boom"), then=[own])

    assert (state(store, lent.id), look(store, lent.id).error) == (State.FAILED, "boom")
    assert claim_one(store).id == own.id


@pytest.mark.parametrize("clash", [Clash.ADD, Clash.REPLACE])
@pytest.mark.parametrize(
    "verdict", [TryAgain(HOUR, "boom"), Defer(HOUR), Release(HOUR), Again(after=HOUR)], ids=repr
)
def test_a_runs_own_request_takes_over_what_the_run_left_undone(
    store: Store, verdict: Verdict, clash: Clash
) -> None:
    lent = start(store, request(KEY))
    own = request(KEY, clash=clash, arguments="[[2],{}]")

    assert settle(store, lent, verdict, then=[own]) is Settled.SETTLED

    next_run = claim_one(store)
    assert (next_run.id, next_run.arguments, next_run.attempt) == (own.id, "[[2],{}]", 0)
    assert waiting(store) == []


@pytest.mark.parametrize("clash", [Clash.ADD, Clash.REPLACE])
def test_a_request_from_outside_stands_before_the_runs_own(store: Store, clash: Clash) -> None:
    lent = start(store, request(KEY))
    outside = put_one(store, request(KEY, delay=MINUTE, arguments='[["outside"],{}]'))

    settle(store, lent, Done(), then=[request(KEY, clash=clash, arguments='[["own"],{}]')])

    [job] = waiting(store)
    assert (job.id, job.arguments) == (outside.id, '[["outside"],{}]')
    assert claim_all(store) == []


def test_a_replaced_runs_own_request_is_dropped(store: Store) -> None:
    lent = start(store, request(KEY))
    outside = put_one(store, replacing(KEY, delay=MINUTE))

    settle(store, lent, Done(), then=[replacing(KEY, delay=HOUR)])

    assert [job.id for job in waiting(store)] == [outside.id]


def own_seed() -> Request:
    return request(KEY, clash=Clash.SEED)


def test_a_runs_own_seed_changes_nothing_about_a_run_that_goes_on(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request(KEY, perpetual=True))

    settle(store, lent, Again(after=MINUTE), then=[own_seed()])

    [job] = waiting(store)
    assert (job.id, job.ready_at) == (lent.id, clock.now() + MINUTE)
