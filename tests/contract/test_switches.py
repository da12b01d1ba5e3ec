"""switches: a lane stands still, until a time or until somebody resumes it; the others go on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.contract.arrange import (
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
    start,
    state,
)

from duly.job import State
from duly.lifecycle import Settled
from duly.stores.contract import Lane, Scope, Store, Switch
from duly.testing import VirtualClock

PAUSE = Switch(Scope.TASK, TASK, None, "bad deploy")


def test_a_paused_task_is_not_lent_until_it_is_resumed(store: Store, clock: VirtualClock) -> None:
    placed = put_one(store, request())
    store.run(store.hold(PAUSE))

    clock.advance(1000 * MINUTE)
    while_paused = claim_all(store)
    was_held = store.run(store.free(Scope.TASK, TASK))

    assert (while_paused, was_held) == ([], True)
    assert claim_one(store).id == placed.id


def test_a_paused_queue_holds_all_its_tasks_and_no_other_queue(store: Store) -> None:
    put(store, request(queue="io"), request(queue="io", task="other"), request(id="free", queue="cpu"))
    store.run(store.hold(Switch(Scope.QUEUE, "io", None)))

    assert ids(claim(store, ask(lanes=[Lane(TASK), Lane("other")])).claims) == ["free"]


def test_a_throttle_ends_by_itself(store: Store, clock: VirtualClock) -> None:
    placed = put_one(store, request())
    store.run(store.hold(Switch(Scope.TASK, TASK, clock.now() + MINUTE)))

    clock.advance(MINUTE - SECOND)
    early = claim_all(store)
    clock.advance(SECOND)

    assert early == []
    assert claim_one(store).id == placed.id


def test_a_held_lane_does_not_stand_in_the_way_of_another(store: Store) -> None:
    put(store, *(request(priority=100) for _ in range(1000)))
    other = put_one(store, request(task="other"))
    store.run(store.hold(PAUSE))

    lent = claim(store, ask(lanes=[Lane(TASK), Lane("other")], limit=1)).claims

    assert ids(lent) == [other.id]


def test_a_lane_stands_still_with_the_tasks_that_hold_it(store: Store) -> None:
    schedule = put_one(store, request(task="duly.schedule:nightly"))
    lanes = [Lane("duly.schedule:nightly", held_by=(TASK,))]
    store.run(store.hold(PAUSE))

    while_paused = claim(store, ask(lanes=lanes)).claims
    store.run(store.free(Scope.TASK, TASK))

    assert while_paused == []
    assert ids(claim(store, ask(lanes=lanes)).claims) == [schedule.id]


def test_a_running_job_is_not_affected(store: Store) -> None:
    lent = start(store, request())
    store.run(store.hold(PAUSE))

    assert settle(store, lent) is Settled.SETTLED


def test_a_job_recovered_while_its_task_is_paused_waits(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request())
    store.run(store.hold(PAUSE))
    clock.advance(LEASE)

    assert claim_all(store, "w2") == []
    assert state(store, lent.id) is State.WAITING


def test_requests_for_a_paused_task_are_taken(store: Store) -> None:
    store.run(store.hold(PAUSE))

    placed = put_one(store, request("k"))

    assert (placed.decision, state(store, placed.id)) == ("created", State.WAITING)


def test_switches_are_listed_while_they_hold(store: Store, clock: VirtualClock) -> None:
    slow = Switch(Scope.QUEUE, "io", clock.now() + MINUTE, "asked to slow down")
    store.run(store.hold(PAUSE))
    store.run(store.hold(slow))

    both = store.run(store.switches())
    clock.advance(MINUTE)

    assert sorted(both, key=lambda switch: switch.scope) == [slow, PAUSE]
    assert store.run(store.switches()) == [PAUSE]


def throttle(clock: VirtualClock, minutes: int, reason: str = "asked to slow down") -> Switch:
    return Switch(Scope.TASK, TASK, clock.now() + minutes * MINUTE, reason)


def test_of_two_throttles_the_longer_one_stands(store: Store, clock: VirtualClock) -> None:
    short, long = throttle(clock, 1), throttle(clock, 2)

    for order in ([short, long], [long, short]):
        for switch in order:
            store.run(store.hold(switch))

        assert store.run(store.switches()) == [long]
        assert store.run(store.free(Scope.TASK, TASK))


def test_the_later_of_two_equal_holds_says_why(store: Store, clock: VirtualClock) -> None:
    store.run(store.hold(throttle(clock, 1, "first")))
    store.run(store.hold(throttle(clock, 1, "second")))

    assert store.run(store.switches()) == [throttle(clock, 1, "second")]


def test_a_throttle_never_shortens_a_pause(store: Store, clock: VirtualClock) -> None:
    store.run(store.hold(PAUSE))
    store.run(store.hold(throttle(clock, 1)))

    assert store.run(store.switches()) == [PAUSE]


def test_a_pause_takes_the_place_of_a_throttle_or_another_pause(store: Store, clock: VirtualClock) -> None:
    other = Switch(Scope.TASK, TASK, None, "still bad")

    for switch in (throttle(clock, 1), PAUSE, other):
        store.run(store.hold(switch))

    assert store.run(store.switches()) == [other]
    assert store.run(store.free(Scope.TASK, TASK))
    assert store.run(store.switches()) == []


def test_a_throttle_that_is_over_is_in_nobodys_way(store: Store, clock: VirtualClock) -> None:
    store.run(store.hold(throttle(clock, 5)))
    clock.advance(5 * MINUTE)
    store.run(store.hold(throttle(clock, 1)))

    assert store.run(store.switches()) == [throttle(clock, 1)]


def test_the_longest_of_many_throttles_at_once_stands(store: Store, clock: VirtualClock) -> None:
    wanted = [throttle(clock, minutes) for minutes in (3, 9, 1, 8, 2, 7, 4, 6)]

    with ThreadPoolExecutor(len(wanted)) as threads:
        list(threads.map(store.run, map(store.hold, wanted)))

    assert store.run(store.switches()) == [throttle(clock, 9)]


def test_a_task_and_a_queue_of_one_name_are_two_switches(store: Store) -> None:
    store.run(store.hold(Switch(Scope.QUEUE, TASK, None)))

    assert not store.run(store.free(Scope.TASK, TASK))
    assert store.run(store.free(Scope.QUEUE, TASK))
    assert store.run(store.switches()) == []


def test_freeing_what_is_not_held_says_so(store: Store) -> None:
    assert not store.run(store.free(Scope.TASK, TASK))
