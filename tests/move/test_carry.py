"""Everything arrives, from each store to each: all that can be seen, and all that only decides later."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.contract.arrange import (
    HOUR,
    KEY,
    LEASE,
    MINUTE,
    SECOND,
    TASK,
    ask,
    begin,
    cancel,
    claim,
    claim_all,
    claim_one,
    find,
    look,
    put,
    put_one,
    request,
    revive,
    settle,
    start,
    state,
    tick,
)
from tests.move.arrange import SOURCE, everything, move, mover, stage
from tests.move.conftest import Pair

from duly.job import Claim, Clash, Decision, Delivery, Guard, Keep, Overlap, Request, State
from duly.lifecycle import Again, Defer, Done, Fail, Stop, TryAgain
from duly.move import MoveRefused
from duly.stores.contract import Lane, Parcel, Rate, Scope, Store, Switch
from duly.stores.house import Stage
from duly.testing import VirtualClock

EVERY_LANE = (Lane(TASK), Lane("limited", rate=Rate(5, HOUR)), Lane("other"))


def first(store: Store, wanted: Request) -> Claim:
    """Put a job and lend it before all others."""
    put_one(store, replace(wanted, priority=100))
    [lent] = claim(store, ask(lanes=EVERY_LANE, limit=1)).claims
    return lent


def live_a_full_life(store: Store, clock: VirtualClock) -> None:
    """Jobs in every state and of every kind, and everything that stands beside them."""
    for verdict in (
        Done("42", HOUR),
        Fail("ValueError: ünï"),
        TryAgain(MINUTE, "boom"),
        Defer(HOUR),
        Again(after=MINUTE),
    ):
        settle(
            store, first(store, request(f"ended by {type(verdict).__name__}", keep=Keep(HOUR, HOUR))), verdict
        )
        clock.advance(SECOND)
    settle(store, first(store, request("stopped", perpetual=True)), Stop())
    put(store, request("guarded", guard=Guard(HOUR)), request("guarded", guard=Guard(HOUR)))
    lent = first(store, request("queued behind"))
    put(store, request("queued behind", arguments='[["später\\u0000"],{}]'))
    settle(store, lent, TryAgain(MINUTE, "absorbed"))
    put(store, *[tick(number, overlap=Overlap.QUEUE_ALL) for number in (1, 2, 3)])
    cancel(store, put_one(store, request(queue="io", priority=-7)).id)
    revive(store, cancel(store, put_one(store, request("revived", run_after=clock.now() + 2 * HOUR)).id).id)
    put(store, request(task="limited"), request(expires_after=HOUR, context='{"trace":"1"}', task="other"))
    claimed = claim(store, ask(lanes=(Lane("limited", rate=Rate(5, HOUR)),))).claims
    settle(store, claimed[0])
    store.run(store.hold(Switch(Scope.TASK, "paused", None, "why\0not")))
    store.run(store.hold(Switch(Scope.QUEUE, "slow", clock.now() + HOUR)))
    store.run(store.record("schedule", "nightly", '{"cron":"0 2 * * *"}'))
    store.run(store.record("overlay", "nightly", "{}"))
    store.run(store.grip("account:7", "anna", HOUR))
    store.run(store.deliver("shop", [Parcel(request("delivered", delay=HOUR), 1)]))
    store.run(store.jot("audit", "ann: why\0not", keep=HOUR))
    store.run(store.jot("pulse", "{}", keep=MINUTE))


def test_all_that_can_be_seen_is_the_same_on_the_other_side(pair: Pair, clock: VirtualClock) -> None:
    live_a_full_life(pair.source, clock)

    move(*pair, clock)

    assert everything(pair.target) == everything(pair.source)
    assert {job.state for job in find(pair.target)} >= {
        State.WAITING,
        State.DONE,
        State.FAILED,
        State.CANCELLED,
    }
    assert (stage(pair.source), stage(pair.target)) == (Stage.GONE, None)


def test_an_empty_store_can_be_moved(pair: Pair, clock: VirtualClock) -> None:
    moved = move(*pair, clock)

    assert moved.inventory is not None
    assert moved.inventory.jobs == 0
    assert claim_all(pair.target) == []


def test_more_jobs_than_one_write_takes_arrive_in_order(pair: Pair, clock: VirtualClock) -> None:
    put(pair.source, *[request(id=f"n{number}") for number in range(1100)])

    move(*pair, clock)

    assert [job.id for job in find(pair.target, limit=2000)] == [
        f"n{number}" for number in reversed(range(1100))
    ]
    assert [lent.id for lent in claim_all(pair.target, limit=3)] == ["n0", "n1", "n2"]


# --- what decides later -------------------------------------------------------------------------


def test_generations_go_on_from_where_they_were(pair: Pair, clock: VirtualClock) -> None:
    last = put_one(pair.source, request()).generation

    move(*pair, clock)

    assert put_one(pair.target, request()).generation > last


def test_a_guard_goes_on_for_the_rest_of_its_window(pair: Pair, clock: VirtualClock) -> None:
    guarded = request(KEY, guard=Guard(HOUR))
    first = put_one(pair.source, guarded)

    move(*pair, clock)
    again = put_one(pair.target, replace(guarded, id="again"))

    assert (again.id, again.decision) == (first.id, Decision.KEPT)


def test_a_perpetual_that_was_stopped_stays_stopped(pair: Pair, clock: VirtualClock) -> None:
    settle(pair.source, start(pair.source, request(KEY, perpetual=True)), Stop())

    move(*pair, clock)
    seeded = put_one(pair.target, replace(request(KEY, perpetual=True), clash=Clash.SEED))

    assert seeded.decision is not Decision.CREATED
    assert claim_all(pair.target) == []


def test_a_perpetual_that_is_cancelled_over_there_stays_cancelled(pair: Pair, clock: VirtualClock) -> None:
    placed = put_one(pair.source, request(KEY, perpetual=True))

    move(*pair, clock)
    cancel(pair.target, placed.id)

    seeded = put_one(pair.target, replace(request(KEY, perpetual=True), clash=Clash.SEED))
    assert seeded.decision is not Decision.CREATED


def test_as_many_runs_of_a_key_overlap_as_its_requests_allow(pair: Pair, clock: VirtualClock) -> None:
    put(pair.source, *[replace(tick(number), per_key=2, overlap=Overlap.QUEUE_ALL) for number in (1, 2, 3)])

    move(*pair, clock)

    assert len(claim_all(pair.target)) == 2


def test_a_pause_holds_on_the_other_side(pair: Pair, clock: VirtualClock) -> None:
    put_one(pair.source, request())
    pair.source.run(pair.source.hold(Switch(Scope.TASK, TASK, None)))

    move(*pair, clock)

    assert claim_all(pair.target) == []


def test_a_lock_is_held_until_its_time_is_over(pair: Pair, clock: VirtualClock) -> None:
    grip = pair.source.run(pair.source.grip("account:7", "anna", MINUTE))
    assert grip is not None

    move(*pair, clock)

    assert pair.target.run(pair.target.grip("account:7", "bert", MINUTE)) is None
    assert pair.target.run(pair.target.keep_grip(grip, MINUTE))
    clock.advance(2 * MINUTE)
    taken = pair.target.run(pair.target.grip("account:7", "bert", MINUTE))
    assert taken is not None
    assert taken.token > grip.token


def test_starts_count_for_a_rate_on_the_other_side(pair: Pair, clock: VirtualClock) -> None:
    limited = ask(lanes=(Lane(TASK, rate=Rate(1, HOUR)),))
    put(pair.source, request(), request())
    settle(pair.source, claim(pair.source, limited).claims[0])

    move(*pair, clock)

    assert claim(pair.target, limited).claims == []
    clock.advance(HOUR)
    assert len(claim(pair.target, limited).claims) == 1


def test_ticks_of_one_schedule_still_go_one_after_the_other(pair: Pair, clock: VirtualClock) -> None:
    put(pair.source, *[tick(number, overlap=Overlap.QUEUE_ALL) for number in (1, 2, 3)])

    move(*pair, clock)

    for number in (1, 2, 3):
        lent = claim_one(pair.target)
        assert lent.key == f"nightly@{number}"
        settle(pair.target, lent)


def test_retention_goes_on_by_what_the_request_said(pair: Pair, clock: VirtualClock) -> None:
    short, long = (Keep(done=keep, failed=keep) for keep in (MINUTE, HOUR))
    for job_id, keep in (("short", short), ("long", long)):
        settle(pair.source, start(pair.source, request(id=job_id, keep=keep)), Done("1", MINUTE))

    move(*pair, clock)
    clock.advance(2 * MINUTE)
    pair.target.run(pair.target.prune(100))

    [left] = find(pair.target)
    assert (left.id, left.result) == ("long", None)


def test_what_a_relay_delivered_is_not_taken_twice(pair: Pair, clock: VirtualClock) -> None:
    parcel = Parcel(request(id="brought"), 1)
    pair.source.run(pair.source.deliver("shop", [parcel]))
    settle(pair.source, claim_one(pair.source))
    clock.advance(23 * HOUR)

    move(*pair, clock)
    [answer] = pair.target.run(pair.target.deliver("shop", [parcel]))

    assert answer.decision is Decision.KEPT
    assert claim_all(pair.target) == []


# --- what is running ----------------------------------------------------------------------------


def test_a_dead_workers_job_is_carried_as_a_suspect(pair: Pair, clock: VirtualClock) -> None:
    lent = start(pair.source, request())
    assert begin(pair.source, lent)

    move(*pair, clock)

    job = look(pair.target, lent.id)
    assert (job.state, job.is_suspect, job.epoch) == (State.WAITING, True, 1)
    assert job.history[-1].event == "lease ran out"


def test_a_dead_workers_at_most_once_job_is_never_started_again(pair: Pair, clock: VirtualClock) -> None:
    lent = start(pair.source, request(delivery=Delivery.AT_MOST_ONCE))
    assert begin(pair.source, lent)

    move(*pair, clock)

    assert look(pair.target, lent.id).reason == "interrupted, outcome unknown"
    assert claim_all(pair.target) == []


def test_a_run_that_does_not_end_in_time_keeps_the_source_sealed(pair: Pair, clock: VirtualClock) -> None:
    lent = start(pair.source, request())

    with pytest.raises(MoveRefused, match=r"1 jobs still run after 0:00:05.*--undo"):
        mover(*pair, clock, wait="5s").run()

    assert (stage(pair.source), state(pair.source, lent.id)) == (Stage.SEALED, State.RUNNING)
    assert LEASE > 5 * SECOND


# --- refusals -----------------------------------------------------------------------------------


def test_a_target_with_jobs_is_refused_and_the_source_left_open(pair: Pair, clock: VirtualClock) -> None:
    put_one(pair.source, request())
    put_one(pair.target, request())

    with pytest.raises(MoveRefused, match="not empty"):
        move(*pair, clock)

    assert (stage(pair.source), stage(pair.target)) == (None, None)


def test_a_second_run_of_a_finished_move_changes_nothing(pair: Pair, clock: VirtualClock) -> None:
    put_one(pair.source, request())
    first = move(*pair, clock)
    settle(pair.target, claim_one(pair.target))

    again = move(*pair, clock)

    assert (again.move, again.inventory) == (first.move, None)
    assert [job.state for job in find(pair.target)] == [State.DONE]


def test_everything_can_be_moved_back(pair: Pair, clock: VirtualClock) -> None:
    live_a_full_life(pair.source, clock)
    move(*pair, clock)
    before = everything(pair.target)
    back = mover(pair.target, pair.source, clock)
    back.source_name, back.target_name = back.target_name, SOURCE

    back.run()

    assert everything(pair.source) == before
    assert (stage(pair.source), stage(pair.target)) == (None, Stage.GONE)
