"""prune: deletes what finished long ago, and what nobody needs any more."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.contract.arrange import (
    HOUR,
    LEASE,
    MINUTE,
    SECOND,
    cancel,
    claim_all,
    exists,
    find,
    look,
    put,
    put_one,
    request,
    revive,
    settle,
    start,
)

from duly.job import Guard, Keep
from duly.lifecycle import HISTORY_LINES, Again, Done, Fail, Skip, TryAgain, Verdict
from duly.stores.contract import Scope, Store, Switch
from duly.testing import VirtualClock

DAY = timedelta(days=1)
KEEP = Keep(done=HOUR, failed=DAY)


@pytest.mark.parametrize(
    ("verdict", "kept_for"),
    [(Done(), HOUR), (Skip("x"), HOUR), (Fail("boom"), DAY)],
    ids=["done", "skipped", "failed"],
)
def test_a_finished_job_stays_readable_as_long_as_its_task_says(
    store: Store, clock: VirtualClock, verdict: Verdict, kept_for: timedelta
) -> None:
    lent = start(store, request(keep=KEEP))
    settle(store, lent, verdict)

    clock.advance(kept_for - SECOND)
    early = store.run(store.prune(100))
    clock.advance(SECOND)
    late = store.run(store.prune(100))

    assert (early, late) == (0, 1)
    assert find(store) == []


def test_a_cancelled_job_is_kept_like_a_done_one(store: Store, clock: VirtualClock) -> None:
    placed = put_one(store, request(keep=KEEP))
    cancel(store, placed.id)
    clock.advance(HOUR)

    assert store.run(store.prune(100)) == 1


def test_by_default_done_stays_a_day_and_failed_thirty(store: Store, clock: VirtualClock) -> None:
    done = start(store, request())
    settle(store, done)
    failed = start(store, request())
    settle(store, failed, Fail("boom"))

    clock.advance(DAY)
    store.run(store.prune(100))
    after_a_day = (exists(store, done.id), exists(store, failed.id))
    clock.advance(29 * DAY)
    store.run(store.prune(100))

    assert after_a_day == (False, True)
    assert find(store) == []


def test_a_generation_is_never_given_twice_even_after_everything_was_pruned(
    store: Store, clock: VirtualClock
) -> None:
    first = start(store, request("k"))
    settle(store, first)
    clock.advance(DAY)
    store.run(store.prune(100))
    assert find(store) == []

    assert put_one(store, request("k")).generation > first.generation


def test_live_jobs_are_never_pruned(store: Store, clock: VirtualClock) -> None:
    start(store, request(id="running", keep=Keep(timedelta(0), timedelta(0))))
    settle(store, start(store, request(id="retrying")), TryAgain(1000 * DAY, "boom"))
    put_one(store, request(id="waiting", delay=1000 * DAY))
    clock.advance(900 * DAY)

    assert store.run(store.prune(100)) == 0
    assert {job.id for job in find(store)} == {"running", "retrying", "waiting"}


def test_pruning_stops_at_its_limit_oldest_first(store: Store, clock: VirtualClock) -> None:
    put(store, request(id="a", keep=KEEP), request(id="b", keep=KEEP), request(id="c", keep=KEEP))
    for lent in reversed(claim_all(store)):
        settle(store, lent)
        clock.advance(SECOND)
    clock.advance(HOUR)

    assert store.run(store.prune(2)) == 2
    assert [job.id for job in find(store)] == ["a"]


def test_retention_counts_from_the_end_of_the_job(store: Store, clock: VirtualClock) -> None:
    placed = put_one(store, request(keep=KEEP, delay=10 * HOUR))
    clock.advance(10 * HOUR)
    [lent] = claim_all(store)
    settle(store, lent)

    assert store.run(store.prune(100)) == 0
    assert exists(store, placed.id)


def test_a_revived_job_is_not_pruned_for_its_earlier_end(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request(keep=KEEP))
    settle(store, lent, Fail("boom"))
    revive(store, lent.id)
    clock.advance(2 * DAY)

    assert store.run(store.prune(100)) == 0


def test_a_result_goes_when_its_time_is_over_and_the_job_stays(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request())
    settle(store, lent, Done("42", keep_result=MINUTE))

    clock.advance(MINUTE - SECOND)
    store.run(store.prune(100))
    early = look(store, lent.id).result
    clock.advance(SECOND)
    pruned = store.run(store.prune(100))

    assert (early, pruned) == ("42", 0)
    assert look(store, lent.id).result is None


def test_pruning_does_not_open_a_guard_that_still_holds(store: Store, clock: VirtualClock) -> None:
    settle(store, start(store, request("k", guard=Guard(DAY), keep=KEEP)))
    clock.advance(HOUR)
    store.run(store.prune(100))

    assert put_one(store, request("k", guard=Guard(DAY))).decision == "kept"
    assert find(store) == []


def test_a_pruned_job_takes_its_history_with_it(store: Store, clock: VirtualClock) -> None:
    wanted = request(keep=KEEP)
    settle(store, start(store, wanted))
    clock.advance(HOUR)
    store.run(store.prune(100))

    put_one(store, wanted)

    assert look(store, wanted.id).history == ()


def test_a_worker_that_died_without_a_word_is_forgotten_after_a_day(
    store: Store, clock: VirtualClock
) -> None:
    start(store, request(), worker="dead")
    clock.advance(LEASE + SECOND)
    claim_all(store, worker="heir")

    clock.advance(DAY)
    store.run(store.prune(100))

    assert [attendance.card.id for attendance in store.run(store.workers())] == ["heir"]


def test_a_worker_whose_job_nobody_took_over_stays_on_the_list(store: Store, clock: VirtualClock) -> None:
    start(store, request(), worker="dead")

    clock.advance(DAY + LEASE)
    store.run(store.prune(100))

    (attendance,) = store.run(store.workers())
    assert (attendance.card.id, attendance.has_lease) == ("dead", False)


def test_a_lock_nobody_let_go_is_forgotten_a_day_after_its_end(store: Store, clock: VirtualClock) -> None:
    early, late = (store.run(store.grip(name, "me", MINUTE)) for name in ("early", "late"))
    assert early is not None
    assert late is not None

    clock.advance(MINUTE + DAY - SECOND)
    store.run(store.prune(100))
    is_kept = store.run(store.keep_grip(early, MINUTE))
    clock.advance(SECOND)
    store.run(store.prune(100))

    assert is_kept
    assert not store.run(store.keep_grip(late, MINUTE))
    assert store.run(store.let_go(early))


def test_a_throttle_is_forgotten_a_day_after_its_end_and_a_pause_never(
    store: Store, clock: VirtualClock
) -> None:
    store.run(store.hold(Switch(Scope.TASK, "early", clock.now() + MINUTE)))
    store.run(store.hold(Switch(Scope.TASK, "late", clock.now() + MINUTE)))
    store.run(store.hold(Switch(Scope.TASK, "paused", None)))

    clock.advance(MINUTE + DAY - SECOND)
    store.run(store.prune(100))
    was_known = store.run(store.free(Scope.TASK, "early"))
    clock.advance(SECOND)
    store.run(store.prune(100))

    assert was_known
    assert not store.run(store.free(Scope.TASK, "late"))
    assert [switch.name for switch in store.run(store.switches())] == ["paused"]


def test_a_perpetual_keeps_only_its_newest_lines(store: Store) -> None:
    job_id = put_one(store, request("poller", perpetual=True)).id
    for _ in range(HISTORY_LINES + 5):
        (claim,) = claim_all(store)
        settle(store, claim, Again())

    lines = look(store, job_id).history

    assert len(lines) == HISTORY_LINES
    assert lines[-1].epoch == HISTORY_LINES + 5
