"""The fence: what a worker whose claim is lost may still write, which is nothing but a line of history."""

from __future__ import annotations

import pytest
from tests.contract.arrange import (
    HOUR,
    KEY,
    LEASE,
    begin,
    cancel,
    claim_all,
    claim_one,
    delete,
    events,
    find,
    look,
    put_one,
    replacing,
    request,
    revive,
    settle,
    start,
    state,
)

from duly.job import Claim, Delivery, Fence, State
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
