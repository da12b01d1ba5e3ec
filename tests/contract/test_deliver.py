"""deliver: what relays bring from an outbox. Each request once, and per key never an older after a newer."""

from __future__ import annotations

from datetime import timedelta

from tests.contract.arrange import (
    HOUR,
    KEY,
    MINUTE,
    SECOND,
    claim_all,
    claim_one,
    delete,
    exists,
    find,
    ids,
    look,
    put_one,
    replacing,
    request,
    settle,
    state,
    waiting,
)

from duly.job import Decision, Guard, Keep, Request, State
from duly.stores.contract import REMEMBERED, Parcel, Placed, Store
from duly.testing import VirtualClock

OUTBOX = "o1"


def deliver(store: Store, *parcels: Parcel, outbox: str = OUTBOX) -> list[Placed]:
    return store.run(store.deliver(outbox, parcels))


def deliver_one(
    store: Store,
    wanted: Request,
    number: int,
    *,
    age: timedelta = timedelta(0),
    outbox: str = OUTBOX,
) -> Placed:
    [placed] = deliver(store, Parcel(wanted, number, age), outbox=outbox)
    return placed


def superseded(store: Store) -> int:
    return store.run(store.census()).superseded


def prune(store: Store) -> None:
    store.run(store.prune(1000))


def test_what_is_delivered_is_a_job(store: Store) -> None:
    keyed, free = request(KEY, arguments="[[1],{}]"), request()

    placed = deliver(store, Parcel(keyed, 1), Parcel(free, 2))

    assert [(answer.id, answer.decision) for answer in placed] == [
        (keyed.id, Decision.CREATED),
        (free.id, Decision.CREATED),
    ]
    assert placed[0].generation == look(store, keyed.id).generation
    assert {lent.id: lent.arguments for lent in claim_all(store)} == {
        keyed.id: "[[1],{}]",
        free.id: free.arguments,
    }


def test_nothing_delivered_is_nothing(store: Store) -> None:
    assert deliver(store) == []


def test_what_is_delivered_twice_is_one_job(store: Store) -> None:
    keyed, free = request(KEY), request()
    first = deliver(store, Parcel(keyed, 1), Parcel(free, 2))

    again = deliver(store, Parcel(keyed, 3), Parcel(free, 4))

    assert again == [Placed(one.id, one.generation, Decision.KEPT) for one in first]
    assert len(claim_all(store)) == 2


def test_what_ended_and_was_pruned_is_not_delivered_again(store: Store, clock: VirtualClock) -> None:
    free, keyed = (
        request(keep=Keep(done=SECOND, failed=SECOND)),
        request(KEY, keep=Keep(done=SECOND, failed=SECOND)),
    )
    deliver(store, Parcel(free, 1), Parcel(keyed, 2))
    for lent in claim_all(store):
        settle(store, lent)
    clock.advance(HOUR)
    prune(store)

    again = deliver(store, Parcel(free, 3), Parcel(keyed, 4))

    assert [answer.decision for answer in again] == [Decision.KEPT, Decision.KEPT]
    assert find(store) == []


def test_what_was_merged_into_another_job_is_not_delivered_again(store: Store) -> None:
    standing = put_one(store, request(KEY))
    merged = request(KEY)
    deliver_one(store, merged, 1)
    settle(store, claim_one(store))

    again = deliver_one(store, merged, 2)

    assert again.decision is Decision.KEPT
    assert [job.id for job in find(store)] == [standing.id]


def test_an_older_replace_never_undoes_a_newer_one(store: Store) -> None:
    newer = replacing(arguments="[[2],{}]")
    deliver_one(store, newer, 2)

    late = deliver_one(store, replacing(arguments="[[1],{}]"), 1)

    assert late.decision is Decision.PENDING
    assert not exists(store, late.id)
    assert claim_one(store).arguments == "[[2],{}]"


def test_an_older_request_is_counted_and_answered_the_same_when_it_comes_again(store: Store) -> None:
    deliver_one(store, request(KEY), 2)
    late = request(KEY)
    deliver_one(store, late, 1)

    again = deliver_one(store, late, 1)

    assert again.decision is Decision.PENDING
    assert superseded(store) == 2


def test_what_came_too_late_is_not_taken_for_delivered_when_it_comes_in_its_turn(store: Store) -> None:
    first, second = replacing(arguments="[[1],{}]"), replacing(arguments="[[2],{}]")
    deliver_one(store, first, 30)
    late = deliver(store, Parcel(first, 10), Parcel(second, 20))

    in_turn = deliver_one(store, second, 40)

    assert [answer.decision for answer in late] == [Decision.KEPT, Decision.PENDING]
    assert in_turn.decision is Decision.REPLACED
    assert claim_one(store).arguments == "[[2],{}]"


def test_an_older_request_is_refused_when_the_newer_has_ended_and_is_gone(store: Store) -> None:
    newer = replacing()
    deliver_one(store, newer, 2)
    settle(store, claim_one(store))
    delete(store, newer.id)

    late = deliver_one(store, replacing(), 1)

    assert late.decision is Decision.PENDING
    assert claim_all(store) == []


def test_parcels_of_one_delivery_take_effect_in_their_order(store: Store) -> None:
    first, second = replacing(), replacing()

    placed = deliver(store, Parcel(first, 1), Parcel(second, 2))

    assert [answer.decision for answer in placed] == [Decision.CREATED, Decision.REPLACED]
    assert state(store, first.id) is State.CANCELLED
    assert [job.id for job in waiting(store)] == [second.id]


def test_within_one_delivery_an_older_one_is_refused_too(store: Store) -> None:
    newer, older = replacing(), replacing()

    placed = deliver(store, Parcel(newer, 2), Parcel(older, 1))

    assert [answer.decision for answer in placed] == [Decision.CREATED, Decision.PENDING]
    assert [job.id for job in waiting(store)] == [newer.id]


def test_the_order_is_that_of_one_key_of_one_task_in_one_outbox(store: Store) -> None:
    deliver_one(store, request("a"), 9)

    other_key = deliver_one(store, request("b"), 1)
    other_task = deliver_one(store, request("a", task="count"), 2)
    other_outbox = deliver_one(store, replacing("a"), 3, outbox="o2")
    no_key = deliver_one(store, request(), 4)

    assert [answer.decision for answer in (other_key, other_task, other_outbox, no_key)] == [
        Decision.CREATED,
        Decision.CREATED,
        Decision.REPLACED,
        Decision.CREATED,
    ]


def test_numbers_as_large_as_a_clock_in_microseconds_keep_their_last_digit(store: Store) -> None:
    newest = 4_102_444_800_000_001
    deliver_one(store, request(KEY), newest)

    older = deliver_one(store, replacing(), newest - 1)
    newer = deliver_one(store, replacing(), newest + 1)

    assert (older.decision, newer.decision) == (Decision.PENDING, Decision.REPLACED)


def test_both_are_remembered_for_a_day(store: Store, clock: VirtualClock) -> None:
    free = request()
    deliver(store, Parcel(request(KEY), 2), Parcel(free, 3))
    clock.advance(REMEMBERED - SECOND)
    prune(store)

    late = deliver(store, Parcel(replacing(), 1), Parcel(free, 3))

    assert [answer.decision for answer in late] == [Decision.PENDING, Decision.KEPT]


def test_after_a_day_both_are_forgotten(store: Store, clock: VirtualClock) -> None:
    free = request(keep=Keep(done=SECOND, failed=SECOND))
    deliver(store, Parcel(request(KEY), 2), Parcel(free, 3))
    for lent in claim_all(store):
        settle(store, lent)
    clock.advance(REMEMBERED)
    prune(store)

    late = deliver(store, Parcel(replacing(), 1), Parcel(free, 3))

    assert [answer.decision for answer in late] == [Decision.CREATED, Decision.CREATED]


def test_a_wait_counts_from_the_moment_of_the_request(store: Store, clock: VirtualClock) -> None:
    keyed, free, soon = request(KEY, delay=HOUR), request(delay=HOUR), request()
    deliver(store, Parcel(keyed, 1, MINUTE), Parcel(free, 2, MINUTE), Parcel(soon, 3, MINUTE))

    assert [look(store, one.id).due - clock.now() for one in (keyed, free, soon)] == [
        HOUR - MINUTE,
        HOUR - MINUTE,
        -MINUTE,
    ]
    assert look(store, free.id).created_at == clock.now() - MINUTE


def test_an_absolute_time_stays_what_it_is(store: Store, clock: VirtualClock) -> None:
    wanted = request(run_after=clock.now() + HOUR)

    deliver_one(store, wanted, 1, age=MINUTE)

    assert look(store, wanted.id).due == clock.now() + HOUR


def test_expiry_counts_from_the_moment_of_the_request(store: Store, clock: VirtualClock) -> None:
    fresh, stale = request(expires_after=HOUR), request("stale", expires_after=HOUR)
    deliver(store, Parcel(fresh, 1, MINUTE), Parcel(stale, 2, 2 * HOUR))

    lent = claim_all(store)

    assert ids(lent) == [fresh.id]
    assert look(store, fresh.id).expires_at == clock.now() + HOUR - MINUTE
    assert state(store, stale.id) is State.SKIPPED


def test_a_merged_request_expires_from_its_own_moment(store: Store, clock: VirtualClock) -> None:
    standing = put_one(store, request(KEY))

    deliver_one(store, request(KEY, expires_after=HOUR), 1, age=MINUTE)

    assert look(store, standing.id).expires_at == clock.now() + HOUR - MINUTE


def test_a_window_opens_at_the_moment_of_the_request(store: Store, clock: VirtualClock) -> None:
    first = request(KEY, guard=Guard(HOUR))
    deliver_one(store, first, 1, age=MINUTE)
    settle(store, claim_one(store))
    clock.advance(HOUR - MINUTE - SECOND)
    inside = deliver_one(store, request(KEY, guard=Guard(HOUR)), 2)
    clock.advance(SECOND)

    outside = deliver_one(store, request(KEY, guard=Guard(HOUR)), 3)

    assert (inside.id, inside.decision) == (first.id, Decision.KEPT)
    assert outside.decision is Decision.CREATED


def test_a_request_made_within_a_window_is_kept_back_however_late_it_comes(
    store: Store, clock: VirtualClock
) -> None:
    first = deliver_one(store, request(KEY, guard=Guard(HOUR)), 1)
    settle(store, claim_one(store))
    clock.advance(HOUR + MINUTE)

    late = deliver_one(store, request(KEY, guard=Guard(HOUR)), 2, age=2 * MINUTE)

    assert (late.id, late.decision) == (first.id, Decision.KEPT)
