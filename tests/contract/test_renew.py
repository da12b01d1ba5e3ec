"""renew, begin, report, leave: what a worker says about claims it still holds; and leases over time."""

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
    card,
    claim_all,
    claim_one,
    delete,
    look,
    put,
    put_one,
    replacing,
    request,
    settle,
    start,
)

from duly.lifecycle import Release, Settled
from duly.stores.contract import Order, Renewal, Store
from duly.testing import VirtualClock


def test_a_beat_extends_the_lease_of_everything_the_worker_holds(store: Store, clock: VirtualClock) -> None:
    put(store, request(), request())
    held = claim_all(store)
    for _ in range(5):
        clock.advance(LEASE - SECOND)
        assert beat(store, *held) == Renewal()

    assert claim_all(store, "w2") == []
    assert look(store, held[0].id).ready_at == clock.now() + LEASE


def test_a_lease_ends_to_the_instant(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request())

    clock.advance(LEASE - timedelta(milliseconds=1))
    early = claim_all(store, "w2")
    clock.advance(timedelta(milliseconds=1))

    assert early == []
    assert claim_one(store, "w2").id == lent.id


def test_one_workers_beat_extends_nobody_elses_lease(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request(), "w1")
    clock.advance(LEASE - SECOND)
    beat(store, worker="w2")
    clock.advance(SECOND)

    assert claim_one(store, "w2").id == lent.id


def test_a_beat_names_the_claims_that_are_lost(store: Store, clock: VirtualClock) -> None:
    put(store, request(), request(), request())
    first, second, third = claim_all(store)
    settle(store, second)
    delete(store, second.id)
    clock.advance(LEASE)
    taken = claim_all(store, "w2", limit=1)

    renewal = beat(store, first, second, third)

    assert [one.id for one in taken] == [first.id]
    assert first.fence in renewal.lost
    assert second.fence in renewal.lost


def test_a_late_beat_keeps_what_nobody_took(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request())
    clock.advance(LEASE + MINUTE)

    assert beat(store, lent) == Renewal()
    assert claim_all(store, "w2") == []
    assert settle(store, lent) is Settled.SETTLED


def test_a_beat_of_a_zombie_neither_takes_back_nor_extends_the_new_loan(
    store: Store, clock: VirtualClock
) -> None:
    frozen = start(store, request(), "w1")
    clock.advance(LEASE)
    fresh = claim_one(store, "w2")
    clock.advance(LEASE - SECOND)

    assert beat(store, frozen, worker="w1").lost == {frozen.fence}
    clock.advance(SECOND)
    assert claim_one(store, "w3").id == fresh.id


def test_a_beat_tells_a_run_that_it_is_to_stop(store: Store) -> None:
    put(store, request(), request(), request(KEY), request())
    cancelled, deleted, replaced, left_alone = claim_all(store)
    cancel(store, cancelled.id)
    delete(store, deleted.id)
    put_one(store, replacing(KEY))

    renewal = beat(store, cancelled, deleted, replaced, left_alone)

    assert renewal.lost == frozenset()
    assert renewal.orders == {
        cancelled.fence: Order.CANCEL,
        deleted.fence: Order.CANCEL,
        replaced.fence: Order.SUPERSEDED,
    }


# --- begin ---------------------------------------------------------------------------------------


def test_a_claim_in_order_may_begin(store: Store) -> None:
    assert begin(store, start(store, request()))


def test_a_lost_claim_may_not_begin(store: Store, clock: VirtualClock) -> None:
    frozen = start(store, request())
    clock.advance(LEASE)
    fresh = claim_one(store, "w2")

    assert not begin(store, frozen)
    assert begin(store, fresh)


def test_a_lost_claim_may_not_begin_beside_the_one_in_force(store: Store, clock: VirtualClock) -> None:
    frozen = start(store, request())
    clock.advance(LEASE)
    fresh = claim_one(store, "w2")

    begun = store.run(store.begin([frozen.fence, fresh.fence], isolated=False))

    assert begun == {fresh.fence}


def test_a_cancelled_or_replaced_claim_may_not_begin(store: Store) -> None:
    put(store, request(), request(KEY))
    cancelled, replaced = claim_all(store)
    cancel(store, cancelled.id)
    put_one(store, replacing(KEY))

    assert not begin(store, cancelled)
    assert not begin(store, replaced)


def test_begin_is_answered_claim_by_claim(store: Store) -> None:
    put(store, request(), request())
    good, cancelled = claim_all(store)
    cancel(store, cancelled.id)

    begun = store.run(store.begin([good.fence, cancelled.fence], isolated=False))

    assert begun == {good.fence}


# --- report --------------------------------------------------------------------------------------


def test_progress_is_readable_while_the_job_runs(store: Store) -> None:
    lent = start(store, request())

    store.run(store.report({lent.fence: "40 %"}))

    assert look(store, lent.id).progress == "40 %"


def test_progress_of_a_lost_claim_is_dropped(store: Store, clock: VirtualClock) -> None:
    frozen = start(store, request())
    clock.advance(LEASE)
    fresh = claim_one(store, "w2")
    store.run(store.report({fresh.fence: "1 %"}))

    store.run(store.report({frozen.fence: "99 %"}))

    assert look(store, frozen.id).progress == "1 %"


def test_a_new_run_starts_without_the_progress_of_the_last(store: Store, clock: VirtualClock) -> None:
    handed_back = start(store, request())
    store.run(store.report({handed_back.fence: "40 %"}))
    settle(store, handed_back, Release())
    second = claim_one(store)
    after_release = look(store, second.id).progress
    store.run(store.report({second.fence: "60 %"}))
    clock.advance(LEASE)
    claim_one(store, "w2")

    assert after_release is None
    assert look(store, second.id).progress is None


# --- workers -------------------------------------------------------------------------------------


def test_workers_are_listed_with_their_cards_and_their_last_beat(store: Store, clock: VirtualClock) -> None:
    beat(store, worker="w1")
    clock.advance(SECOND)
    beat(store, worker="w2", host="host-2")

    listed = {shown.id: (shown, seen) for shown, seen, _ in store.run(store.workers())}

    assert listed["w1"] == (card("w1"), clock.now() - SECOND)
    assert listed["w2"] == (card("w2", host="host-2"), clock.now())


def test_a_worker_that_claims_is_listed_before_its_first_beat(store: Store) -> None:
    start(store, request(), "w1")

    [(shown, _, _)] = store.run(store.workers())

    assert shown.id == "w1"


def test_a_worker_that_left_is_not_listed(store: Store) -> None:
    beat(store, worker="w1")

    store.run(store.leave("w1"))

    assert store.run(store.workers()) == []


def test_leaving_twice_is_no_error(store: Store) -> None:
    store.run(store.leave("never seen"))
    store.run(store.leave("never seen"))

    assert store.run(store.workers()) == []


# --- the wall clock may step; a lease does not notice ---------------------------------------------


@pytest.mark.parametrize("step", [timedelta(days=365), -timedelta(days=365), HOUR, -HOUR], ids=str)
def test_a_step_of_the_wall_clock_never_lends_a_running_job_again(
    store: Store, clock: VirtualClock, step: timedelta
) -> None:
    lent = start(store, request())
    clock.advance(LEASE - SECOND)

    clock.step_wall(step)

    assert claim_all(store, "w2") == []
    assert beat(store, lent) == Renewal()
    assert settle(store, lent) is Settled.SETTLED


@pytest.mark.parametrize("step", [timedelta(days=365), -timedelta(days=365)], ids=str)
def test_a_lease_ends_on_time_whatever_the_wall_clock_did(
    store: Store, clock: VirtualClock, step: timedelta
) -> None:
    lent = start(store, request())
    clock.step_wall(step)

    clock.advance(LEASE)

    assert claim_one(store, "w2").id == lent.id


def test_a_step_forward_hastens_due_work_and_a_step_back_delays_it(store: Store, clock: VirtualClock) -> None:
    put(store, request(id="soon", delay=HOUR), request(id="now"))

    clock.step_wall(-SECOND)
    delayed = claim_all(store)
    clock.step_wall(HOUR + SECOND)
    hastened = [one.id for one in claim_all(store)]

    assert delayed == []
    assert hastened == ["now", "soon"]
