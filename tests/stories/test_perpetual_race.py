"""A perpetual task runs while somebody forces a new run of its key: the newer wish is in force at the end.

The trace, by its usual letters: A runs with old settings; the settings change and B is asked for, to run at
once; B ends and leaves C, the next cycle by the new settings; then A ends, with its old idea of the next
cycle. Time stands still in these stories, so a due time tells whose idea it was.
"""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from tests.stories.arrange import Gate, ended, until, working
from tests.stories.watch import KEY, NEW, OLD, STALE, CloudError, Overlap, Watch, due_in

from duly import Duly, Handle, Retry, Run, State
from duly.testing import VirtualClock

both_overlaps = pytest.mark.parametrize("overlap", ["allow", "queue_one"])


# --- the trace ----------------------------------------------------------------------------------


def test_the_trace_ends_with_c_in_force_when_runs_may_overlap(timed_app: Duly, clock: VirtualClock) -> None:
    watch = Watch(timed_app, "allow")

    with working(timed_app):
        a = watch.start()  # t0, t1
        b = watch.change()  # t2
        until(lambda: watch.seen == [OLD, NEW])  # t3: A still runs
        c = watch.next_cycle()  # t4
        watch.gate.open()  # t5
        older = ended(timed_app, a)

    assert (older.state, older.reason) == (State.CANCELLED, f"superseded by {b.id}")
    assert watch.next_cycle() == c
    assert (c.id, due_in(c, clock)) == (b.id, NEW)
    assert timed_app.store.run(timed_app.store.census()).superseded == 1


def test_the_trace_ends_with_c_in_force_when_runs_wait_for_each_other(
    timed_app: Duly, clock: VirtualClock
) -> None:
    watch = Watch(timed_app, "queue_one")

    with working(timed_app):
        a = watch.start()
        b = watch.change()
        waits = timed_app.jobs.get(b)
        watch.gate.open()
        older = ended(timed_app, a)
        c = watch.next_cycle()

    assert (waits.state, waits.is_parked) == (State.WAITING, True)
    assert (older.state, older.reason) == (State.CANCELLED, f"superseded by {b.id}")
    assert (c.id, due_in(c, clock), watch.seen) == (b.id, NEW, [OLD, NEW])


def test_a_request_without_replace_is_not_lost_while_the_key_runs(
    timed_app: Duly, clock: VirtualClock
) -> None:
    watch = Watch(timed_app)

    with working(timed_app):
        a = watch.start()
        b = watch.change(replace=False)
        watch.gate.open()
        older = ended(timed_app, a)
        c = watch.next_cycle()

    assert (b.decision, older.state, older.reason) == ("queued", State.DONE, f"yielded to {b.id}")
    assert (c.id, due_in(c, clock)) == (b.id, NEW)


@both_overlaps
def test_a_replace_that_lands_after_the_run_has_decided_still_wins(
    timed_app: Duly, clock: VirtualClock, overlap: Overlap
) -> None:
    replaced: list[Handle[None]] = []

    def replace_from_elsewhere(run: Run, interval: timedelta) -> None:
        run.again(after=interval)
        other = threading.Thread(target=lambda: replaced.append(watch.change()))
        other.start()
        other.join()

    watch = Watch(timed_app, overlap, replace_from_elsewhere)
    with working(timed_app):
        a = watch.start()
        watch.gate.open()
        ended(timed_app, a)
        c = watch.next_cycle()

    assert (c.id, due_in(c, clock)) == (replaced[0].id, NEW)


# --- what else a stale run may try --------------------------------------------------------------


@both_overlaps
@pytest.mark.parametrize("act", STALE)
def test_whatever_a_stale_run_does_c_stays_in_force(
    timed_app: Duly, clock: VirtualClock, overlap: Overlap, act: str
) -> None:
    retry = Retry(on=CloudError, attempts=5, backoff="fixed", first=OLD)
    watch = Watch(timed_app, overlap, STALE[act], retry=retry)

    with working(timed_app):
        a = watch.start()
        b = watch.change()
        if overlap == "allow":
            watch.next_cycle()
        watch.gate.open()
        older = ended(timed_app, a)
        c = watch.next_cycle()

    assert (older.state, older.reason) == (State.CANCELLED, f"superseded by {b.id}")
    assert (c.id, c.state, due_in(c, clock), c.attempt) == (b.id, State.WAITING, NEW, 0)
    assert watch.seen == [OLD, NEW]


@both_overlaps
def test_a_body_that_reschedules_itself_in_a_finally_block_cannot_win_when_it_is_stale(
    timed_app: Duly, clock: VirtualClock, overlap: Overlap
) -> None:
    settings, gate, seen = [OLD], Gate(), list[timedelta]()

    @timed_app.task(overlap=overlap)
    def materialise(deployment: int) -> None:
        interval = settings[-1]
        seen.append(interval)
        try:
            if interval == OLD:
                gate.wait_here()
                raise ValueError("and it fails, too")
        finally:
            materialise.using(key=KEY, replace=True, run_after=interval).enqueue(deployment)

    with working(timed_app):
        a = materialise.using(key=KEY).enqueue(7)
        gate.reached()
        settings.append(NEW)
        b = materialise.using(key=KEY, replace=True).enqueue(7)
        if overlap == "allow":
            ended(timed_app, b)
        gate.open()
        older, newer = ended(timed_app, a), ended(timed_app, b)
        [c] = timed_app.jobs.list(key=KEY, state=["waiting", "running"])

    assert (older.state, newer.state) == (State.CANCELLED, State.DONE)
    assert older.reason in (f"superseded by {b.id}", f"superseded by {c.id}")
    assert (due_in(c, clock), seen) == (NEW, [OLD, NEW])


def test_two_runs_of_one_key_never_overlap_unless_allowed(timed_app: Duly) -> None:
    running, most, lock = 0, 0, threading.Lock()
    seen: list[int] = []

    @timed_app.perpetual(every="9h")
    def watch(n: int) -> None:
        nonlocal running, most
        with lock:
            seen.append(n)
            running += 1
            most = max(most, running)
        threading.Event().wait(0.002)
        with lock:
            running -= 1

    with working(timed_app), working(timed_app):
        for n in range(30):
            watch.using(key=KEY, replace=n % 2 == 0).enqueue(n)
        watch.using(key=KEY).enqueue(30)
        until(lambda: 30 in seen)

    assert most == 1


# --- no ABA: the number of a request outlives its record ----------------------------------------


@both_overlaps
def test_a_key_deleted_and_created_again_meanwhile_belongs_to_the_new_chain(
    timed_app: Duly, clock: VirtualClock, overlap: Overlap
) -> None:
    watch = Watch(timed_app, overlap)

    with working(timed_app):
        a = watch.start()
        timed_app.jobs.delete(a)
        b = watch.change(replace=False)
        if overlap == "allow":
            watch.next_cycle()
        watch.gate.open()
        until(lambda: timed_app.jobs.count() == 1)
        c = watch.next_cycle()

    assert b.generation > a.generation
    assert (c.id, due_in(c, clock)) == (b.id, NEW)
