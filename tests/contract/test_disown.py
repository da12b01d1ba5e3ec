"""disown: a worker whose claim was answered to nobody gives back what it never received."""

from __future__ import annotations

from tests.contract.arrange import (
    KEY,
    LEASE,
    beat,
    cancel,
    claim_all,
    claim_one,
    events,
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

from duly.job import Claim, State
from duly.lifecycle import Settled
from duly.stores.contract import Store
from duly.testing import VirtualClock


def disown(store: Store, *held: Claim, worker: str = "w1") -> int:
    return store.run(store.disown(worker, [lent.fence for lent in held]))


def test_what_the_worker_never_received_is_handed_back_uncounted(store: Store) -> None:
    put(store, request(), request())
    received, stray = claim_all(store, "w1")

    assert disown(store, received) == 1

    again = claim_one(store, "w2")
    assert (again.id, again.attempt, again.crashes, again.is_suspect) == (stray.id, 0, 0, False)
    assert look(store, stray.id).history[-1].note == "its claim was never received"
    assert settle(store, received) is Settled.SETTLED


def test_what_other_workers_hold_is_not_touched(store: Store) -> None:
    lent = start(store, request(), "w2")

    assert disown(store, worker="w1") == 0
    assert (state(store, lent.id), events(store, lent.id)) == (State.RUNNING, [])


def test_a_stray_that_was_replaced_is_not_lent_again(store: Store) -> None:
    stray = start(store, request(KEY))
    newer = put_one(store, replacing(KEY))

    disown(store)

    assert state(store, stray.id) is State.CANCELLED
    assert claim_one(store).id == newer.id


def test_a_stray_that_was_cancelled_is_not_lent_again(store: Store) -> None:
    stray = start(store, request(KEY))
    cancel(store, stray.id)

    disown(store)

    assert state(store, stray.id) is State.CANCELLED
    assert claim_all(store) == []


def test_a_stray_is_absorbed_by_the_request_behind_it(store: Store) -> None:
    stray = start(store, request(KEY))
    behind = put_one(store, request(KEY))

    disown(store)

    assert state(store, stray.id) is State.CANCELLED
    assert [job.id for job in waiting(store)] == [behind.id]


def test_an_older_loan_of_the_same_job_does_not_speak_for_the_stray(
    store: Store, clock: VirtualClock
) -> None:
    older = start(store, request(), "w1")
    clock.advance(LEASE)
    elsewhere = claim_one(store, "w2")
    clock.advance(LEASE)
    beat(store, worker="w1")
    stray = claim_one(store, "w1")

    assert disown(store, older) == 1

    assert stray.id == elsewhere.id
    assert claim_one(store, "w3").id == stray.id
