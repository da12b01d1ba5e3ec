"""settle: per claim all or nothing — verdict, history line and follow-up requests, under the fence."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.contract.arrange import (
    HOUR,
    KEY,
    LEASE,
    MINUTE,
    SECOND,
    cancel,
    claim_all,
    claim_one,
    exists,
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

from duly.job import Clash, Request, State
from duly.lifecycle import Again, Crash, Defer, Done, Fail, Release, Settled, Skip, TryAgain, Verdict
from duly.stores.contract import Settlement, Store
from duly.testing import VirtualClock

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


def test_the_history_says_what_went_wrong_before_each_retry(store: Store) -> None:
    frames = 'Traceback (most recent call last):\n  File "shop.py", line 3, in charge\n    raise Busy(1)\n'
    settle(store, start(store, request()), TryAgain(timedelta(0), f"{frames}shop.Busy: one\nand more"))
    settle(store, claim_one(store), TryAgain(timedelta(0), "hard limit of 1 s exceeded"))
    lent = claim_one(store)
    settle(store, lent, Done())

    notes = [line.note for line in look(store, lent.id).history if line.event == "retry"]

    assert notes == ["shop.Busy: one\nand more", "hard limit of 1 s exceeded"]


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


@pytest.mark.parametrize("place", ["told", "not told", "told wrongly"])
def test_where_a_job_was_lent_is_only_a_hint(store: Store, place: str) -> None:
    put(store, request(), request(), request(KEY))
    *lent, lost = claim_all(store)
    settle(store, lost, Release())
    generations = {"told": lost.generation, "not told": None, "told wrongly": 10**9}

    ends = [
        *[Settlement(one.fence, Done("1", HOUR), generation=one.generation) for one in lent],
        Settlement(lost.fence, Done(), generation=generations[place]),
    ]
    answers = [store.run(store.settle("w1", part)) for part in (ends, ends[:1])]

    assert answers == [[Settled.SETTLED, Settled.SETTLED, Settled.LOST], [Settled.SETTLED]]
    assert [look(store, one.id).result for one in lent] == ["1", "1"]
    assert state(store, lost.id) is State.WAITING


@pytest.mark.parametrize("place", [None, 10**9])
def test_an_end_that_tells_no_place_counts_as_well(store: Store, place: int | None) -> None:
    lent = start(store, request())

    assert store.run(store.settle("w1", [Settlement(lent.fence, Done(), generation=place)])) == [
        Settled.SETTLED
    ]

    assert state(store, lent.id) is State.DONE


def test_an_empty_batch_is_answered_with_nothing(store: Store) -> None:
    assert store.run(store.settle("w1", [])) == []


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


def settle_all(store: Store, *ended: Settlement) -> list[Settled]:
    return store.run(store.settle("w1", ended))


def test_follow_ups_of_a_batch_are_put_in_its_order(store: Store) -> None:
    put(store, *(request() for _ in range(4)))
    lent = claim_all(store)
    revive(store, lent[1].id)  # somebody spoke of this one: it is settled with care
    follow_ups = [request("same"), request(), replacing("same"), request("b")]

    settle_all(
        store,
        *(Settlement(one.fence, Done(), then=(more,)) for one, more in zip(lent, follow_ups, strict=True)),
    )

    assert state(store, follow_ups[0].id) is State.CANCELLED
    assert [job.id for job in claim_all(store)] == [one.id for one in follow_ups[1:]]


@pytest.mark.parametrize("comes_first", ["the run", "the request"])
def test_a_follow_up_finds_the_runs_of_its_batch_that_come_after_it(store: Store, comes_first: str) -> None:
    put(store, request(KEY), request())
    named, other = sorted(claim_all(store), key=lambda one: one.key is None)
    newer = replacing(KEY)
    ends = [Settlement(named.fence, Done()), Settlement(other.fence, Done(), then=(newer,))]

    answers = settle_all(store, *(ends if comes_first == "the run" else reversed(ends)))

    is_superseded = comes_first == "the request"
    assert (Settled.SUPERSEDED in answers) is is_superseded
    assert state(store, named.id) is (State.CANCELLED if is_superseded else State.DONE)
    assert claim_one(store).id == newer.id


def test_of_two_verdicts_on_one_run_the_first_counts_whatever_it_asks_for(store: Store) -> None:
    put(store, request(KEY), request())
    named, other = sorted(claim_all(store), key=lambda one: one.key is None)
    first = Settlement(other.fence, TryAgain(HOUR, "boom"), then=(replacing(KEY),))

    answers = settle_all(store, first, Settlement(other.fence, Defer(HOUR)), Settlement(named.fence, Done()))

    assert answers == [Settled.SETTLED, Settled.LOST, Settled.SUPERSEDED]
    assert (look(store, other.id).attempt, look(store, other.id).error) == (1, "boom")


def test_a_run_that_asks_for_itself_by_another_serial_is_taken_over(store: Store) -> None:
    lent = start(store, request(KEY))
    own = replace(request(KEY), serial="another")

    settle_all(store, Settlement(lent.fence, Again(after=HOUR), then=(own,)))

    assert claim_one(store).id == own.id
    assert waiting(store) == []


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
