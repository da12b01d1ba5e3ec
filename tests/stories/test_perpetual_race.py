"""A perpetual task runs while somebody forces a new run of its key: the newer wish is in force at the end.

The trace, by its usual letters: A runs with old settings; the settings change and B is asked for, to run at
once; B ends and leaves C, the next cycle by the new settings; then A ends, with its old idea of the next
cycle. Time stands still in these stories, so a due time tells whose idea it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

import pytest
from tests.stories.arrange import Gate, OpenApp, ended, events, in_state, until, working

from duly import Duly, Handle, Job, Retry, Run, State
from duly.testing import VirtualClock

OLD, NEW = timedelta(hours=1), timedelta(minutes=1)
KEY = "deployment:7"
LEASE = "1h"  # of virtual time: nobody loses it but by the test's hand, and no beat comes in between

Overlap = Literal["allow", "queue_one"]
Finish = Callable[[Run, timedelta], None]

both_overlaps = pytest.mark.parametrize("overlap", ["allow", "queue_one"])


class CloudError(Exception):
    pass


def go_on(run: Run, interval: timedelta) -> None:
    run.again(after=interval)


class Watch:
    """A perpetual whose interval comes from settings that a user may change while it runs."""

    def __init__(
        self, app: Duly, overlap: Overlap = "queue_one", finish: Finish = go_on, **options: Any
    ) -> None:
        self.app = app
        self.settings = OLD
        self.gate = Gate()
        self.seen: list[timedelta] = []

        @app.perpetual(every="9h", overlap=overlap, **options)
        def watch(run: Run) -> None:
            interval = self.settings
            self.seen.append(interval)
            if interval == OLD:
                self.gate.wait_here()
            (finish if interval == OLD else go_on)(run, interval)

        self.task = watch

    def start(self) -> Handle[None]:
        """A, held at its gate with the old settings in hand."""
        handle = self.task.using(key=KEY).enqueue()
        self.gate.reached()
        return handle

    def change(self, *, replace: bool = True) -> Handle[None]:
        """The user changes the settings, and the application forces a run."""
        self.settings = NEW
        return self.task.using(key=KEY, replace=replace).enqueue()

    def next_cycle(self) -> Job:
        """C: the one job that waits for the key."""
        until(lambda: any(job.cycle for job in self._waiting()))
        [job] = self._waiting()
        return job

    def _waiting(self) -> list[Job]:
        return self.app.jobs.list(key=KEY, state="waiting")


def due_in(job: Job, clock: VirtualClock) -> timedelta:
    assert job.ready_at is not None
    return job.ready_at - clock.now()


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


def _stop(run: Run, _: timedelta) -> None:
    run.stop()


def _fail(_: Run, __: timedelta) -> None:
    raise ValueError("stale")


def _want_to_retry(_: Run, __: timedelta) -> None:
    raise CloudError("stale")


def _defer(run: Run, interval: timedelta) -> None:
    run.defer(interval)


STALE: dict[str, Finish] = {
    "calls stop()": _stop,
    "fails": _fail,
    "fails and would retry": _want_to_retry,
    "defers itself": _defer,
}


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


class Zombie:
    """A's worker is cut off with A in hand: its lease runs out, and it knows nothing of it."""

    def __init__(self, open_app: OpenApp, clock: VirtualClock, finish: Finish = go_on) -> None:
        self.app = open_app(clock=clock, lease=LEASE)
        self.watch = Watch(self.app, finish=finish)
        self.clock = clock

    def lose_lease(self) -> None:
        self.clock.advance("2h")
        self.watch.settings = NEW

    def wake_up(self, a: Handle[None]) -> None:
        """A ends at last, and its worker tells the store."""
        before = self._refusals()
        self.watch.gate.open()
        until(lambda: self._refusals() > before)

    def _refusals(self) -> int:
        return self.app.store.run(self.app.store.census()).refused


def test_a_zombie_of_the_same_generation_does_not_win(open_app: OpenApp, clock: VirtualClock) -> None:
    zombie = Zombie(open_app, clock)

    with working(zombie.app, concurrency=1):
        a = zombie.watch.start()
        zombie.lose_lease()
        with working(zombie.app):
            c = zombie.watch.next_cycle()
            zombie.wake_up(a)

    job = zombie.app.jobs.get(a)
    assert (c.id, c.generation, c.epoch) == (a.id, a.generation, 2)
    assert (job.state, due_in(job, clock)) == (State.WAITING, NEW)
    assert events(job) == ["lease ran out", "again", "refused"]
    assert "epoch 1" in job.history[-1].note


@pytest.mark.parametrize("act", STALE)
def test_a_zombie_can_neither_stop_nor_fail_nor_retry_what_was_lent_again(
    open_app: OpenApp, clock: VirtualClock, act: str
) -> None:
    zombie = Zombie(open_app, clock, STALE[act])

    with working(zombie.app, concurrency=1):
        a = zombie.watch.start()
        zombie.lose_lease()
        with working(zombie.app):
            zombie.watch.next_cycle()
            zombie.wake_up(a)

    job = zombie.app.jobs.get(a)
    assert (job.state, due_in(job, clock), job.error, job.attempt) == (State.WAITING, NEW, None, 0)


def test_an_old_run_does_not_bring_a_stopped_chain_back_when_its_record_is_gone(
    open_app: OpenApp, clock: VirtualClock
) -> None:
    zombie = Zombie(open_app, clock)

    with working(zombie.app, concurrency=1):
        a = zombie.watch.start()
        zombie.lose_lease()
        with working(zombie.app):
            zombie.watch.next_cycle()
            a.cancel()
            zombie.app.jobs.delete(a)
            zombie.wake_up(a)

    assert zombie.app.jobs.count() == 0


def test_an_old_run_does_not_touch_a_fresh_chain_of_its_key(open_app: OpenApp, clock: VirtualClock) -> None:
    zombie = Zombie(open_app, clock)

    with working(zombie.app, concurrency=1):
        a = zombie.watch.start()
        zombie.lose_lease()
        with working(zombie.app):
            zombie.watch.next_cycle()
            zombie.app.jobs.delete(a)
            fresh = zombie.watch.change(replace=False)
            zombie.watch.next_cycle()
            zombie.wake_up(a)

    [job] = zombie.app.jobs.list()
    assert (job.id, job.state, due_in(job, clock)) == (fresh.id, State.WAITING, NEW)
    assert fresh.generation > a.generation


def test_a_zombie_that_was_replaced_meanwhile_is_not_lent_again(
    open_app: OpenApp, clock: VirtualClock
) -> None:
    zombie = Zombie(open_app, clock)

    with working(zombie.app, concurrency=1):
        a = zombie.watch.start()
        b = zombie.watch.change()
        zombie.lose_lease()
        with working(zombie.app):
            c = zombie.watch.next_cycle()
            older = in_state(zombie.app, a, "cancelled")
            zombie.wake_up(a)

    assert (c.id, due_in(c, clock)) == (b.id, NEW)
    assert (older.epoch, older.reason) == (1, f"superseded by {b.id}")
