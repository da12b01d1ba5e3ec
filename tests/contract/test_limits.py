"""claim under limits: concurrency, rate, runs per key. Limits are derived, so they cannot drift."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.contract.arrange import (
    HOUR,
    KEY,
    LEASE,
    MINUTE,
    SECOND,
    TASK,
    ask,
    claim,
    claim_all,
    claim_one,
    ids,
    put,
    put_one,
    request,
    settle,
)

from duly.job import Claim, Overlap
from duly.lifecycle import Release
from duly.stores.contract import Lane, Rate, Store
from duly.testing import VirtualClock

ALL: Final = Overlap.QUEUE_ALL
TWO_AT_ONCE: Final = Lane(TASK, concurrency=2)
THREE_A_MINUTE: Final = Lane(TASK, rate=Rate(3, MINUTE))


def take(store: Store, lane: Lane, worker: str = "w1", *, free: int = 100) -> Sequence[Claim]:
    return claim(store, ask(worker, lanes=[lane, Lane("other")], free=free)).claims


# --- concurrency ---------------------------------------------------------------------------------


def test_no_more_than_the_limit_run_at_once_over_all_workers(store: Store) -> None:
    put(store, *(request() for _ in range(5)))

    first = take(store, TWO_AT_ONCE, "w1")
    second = take(store, TWO_AT_ONCE, "w2")

    assert (len(first), len(second)) == (2, 0)


def test_a_run_that_ends_makes_room_for_one(store: Store) -> None:
    put(store, *(request() for _ in range(5)))
    first, _ = take(store, TWO_AT_ONCE)
    settle(store, first)

    assert len(take(store, TWO_AT_ONCE, "w2")) == 1


def test_a_worker_that_dies_gives_its_room_back(store: Store, clock: VirtualClock) -> None:
    put(store, *(request() for _ in range(5)))
    take(store, TWO_AT_ONCE, "w1")
    clock.advance(LEASE)

    assert len(take(store, TWO_AT_ONCE, "w2")) == 2


def test_a_full_lane_does_not_stand_in_the_way_of_another(store: Store) -> None:
    put(store, *(request(priority=100) for _ in range(20)))
    other = put_one(store, request(task="other"))

    assert other.id in ids(take(store, TWO_AT_ONCE))


def test_a_limited_lane_draws_only_on_slots_that_start_at_once(store: Store) -> None:
    put(store, *(request() for _ in range(5)), *(request(task="other") for _ in range(5)))

    lent = take(store, Lane(TASK, concurrency=10), free=2)

    assert [one.task for one in lent].count(TASK) == 2
    assert [one.task for one in lent].count("other") == 5


# --- rate ----------------------------------------------------------------------------------------


def test_in_every_window_no_more_start_than_the_rate_allows(store: Store, clock: VirtualClock) -> None:
    put(store, *(request() for _ in range(100)))
    starts: list[float] = []
    for step in range(40):
        lent = take(store, THREE_A_MINUTE, f"w{step % 3}")
        starts += [clock.boot()] * len(lent)
        for one in lent:
            settle(store, one)
        clock.advance(7 * SECOND)

    in_window = [sum(1 for other in starts if 0 <= other - first < 60) for first in starts]
    assert max(in_window) == 3
    assert len(starts) >= 3 * (40 * 7 // 63)  # and the rate is used: a window opens at most 7 s late


def test_a_start_counts_for_the_rate_also_when_it_was_handed_back(store: Store) -> None:
    put(store, *(request() for _ in range(5)))
    for one in take(store, THREE_A_MINUTE):
        settle(store, one, Release())

    assert take(store, THREE_A_MINUTE) == []


def test_the_rate_holds_over_all_workers(store: Store) -> None:
    put(store, *(request() for _ in range(5)))

    lent = [len(take(store, THREE_A_MINUTE, worker, free=2)) for worker in ("w1", "w2", "w3")]

    assert lent == [2, 1, 0]


def test_a_lane_out_of_rate_does_not_stand_in_the_way_of_another(store: Store) -> None:
    put(store, *(request(priority=100) for _ in range(20)))
    other = put_one(store, request(task="other"))

    lent = ids(take(store, THREE_A_MINUTE))

    assert len(lent) == 4
    assert other.id in lent


def test_a_rate_opens_in_the_order_of_time_after_the_clock_was_set_back(
    store: Store, clock: VirtualClock
) -> None:
    two_a_minute = ask(lanes=[Lane(TASK, rate=Rate(2, MINUTE))], free=1)
    put_one(store, request())
    claim(store, two_a_minute)
    clock.step_wall(-HOUR)
    put(store, *(request() for _ in range(3)))
    opens_at = clock.now() + MINUTE

    started = claim(store, two_a_minute)
    refused = claim(store, two_a_minute)
    clock.advance(MINUTE)
    opened = claim(store, two_a_minute)

    assert (len(started.claims), started.next_at) == (1, opens_at)
    assert (len(refused.claims), refused.next_at) == (0, opens_at)
    assert len(opened.claims) == 1


# --- per key -------------------------------------------------------------------------------------


def test_a_key_runs_as_often_at_once_as_its_limit_says(store: Store) -> None:
    shared = [request(f"k{number}", serial="account:7", per_key=3, overlap=ALL) for number in range(5)]
    put(store, *shared)

    first = claim_all(store, "w1")
    full = claim_all(store, "w2")
    settle(store, first[0])
    next_one = claim_one(store, "w2")

    assert ids(first) == [one.id for one in shared[:3]]
    assert full == []
    assert next_one.id == shared[3].id


def test_a_key_without_limit_runs_everything_at_once(store: Store) -> None:
    put(store, *(request(f"k{number}", serial="account:7", per_key=0, overlap=ALL) for number in range(5)))

    assert len(claim_all(store)) == 5


def test_a_thousand_jobs_behind_one_key_do_not_hide_the_next_key(store: Store) -> None:
    put(store, *(request(f"k{number}", serial="hot", priority=1, overlap=ALL) for number in range(1000)))
    first = claim_all(store, limit=1)
    other = put_one(store, request(KEY))

    assert len(first) == 1
    assert ids(claim_all(store, "w2", limit=1)) == [other.id]
