"""Flow control: deferring, throttling, pausing, and limits over all workers."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Literal

import pytest
from tests.stories import errands
from tests.stories.arrange import Gate, OpenApp, ended, events, run_all, several_working, until, working

from duly import Duly, Run, State
from duly.testing import VirtualClock

MINUTE = timedelta(minutes=1)

fails_or_not = pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])


# --- defer --------------------------------------------------------------------------------------


@fails_or_not
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_deferred_job_waits_and_counts_no_attempt(
    timed_app: Duly, clock: VirtualClock, fails: bool, kind: str
) -> None:
    seen: list[tuple[int, str]] = []

    def step(run: Run) -> None:
        seen.append((run.attempt, run.idempotency_key))
        if len(seen) == 1:
            run.defer("5m")
            if fails:
                raise ValueError("after the deferral")

    async def step_on_loop(run: Run) -> None:
        step(run)

    body: Any = step if kind == "sync" else step_on_loop
    handle = timed_app.task(body).enqueue()
    run_all(timed_app)
    deferred = timed_app.jobs.get(handle)
    clock.advance("5m")
    run_all(timed_app)

    assert deferred.ready_at == deferred.due + 5 * MINUTE
    assert (deferred.state, deferred.attempt, deferred.deferrals) == (State.WAITING, 0, 1)
    assert handle.state() is State.DONE
    assert [attempt for attempt, _ in seen] == [1, 1]
    assert len({key for _, key in seen}) == 1


def test_a_job_that_always_defers_comes_to_an_end(timed_app: Duly) -> None:
    @timed_app.task(max_deferrals=5)
    def later(run: Run) -> None:
        run.defer(0)

    handle = later.enqueue()
    run_all(timed_app)

    job = timed_app.jobs.get(handle)
    assert (job.state, job.reason, job.deferrals) == (State.FAILED, "deferred too often", 5)


# --- throttle -----------------------------------------------------------------------------------


class Calling:
    """A task that calls a service which says at the first call that it has enough."""

    def __init__(
        self, app: Duly, *, scope: Literal["cluster", "process"] = "cluster", fails: bool = False
    ) -> None:
        self.calls: list[int] = []

        @app.task(name="call")
        def call(run: Run, n: int) -> None:
            self.calls.append(n)
            if n == 0:
                run.throttle("10m", scope=scope, reason="429")
                if fails:
                    raise ValueError("after the throttle")

        self.task = call


@fails_or_not
def test_a_throttle_holds_all_further_jobs_of_the_task_everywhere(
    open_app: OpenApp, clock: VirtualClock, fails: bool
) -> None:
    apps = [open_app(clock=clock) for _ in range(2)]
    one, two = (Calling(app, fails=fails) for app in apps)
    other = apps[0].task(name="other")(lambda: None)
    apps[1].task(name="other")(lambda: None)
    first = one.task.enqueue(0)

    run_all(apps[0], concurrency=1)
    one.task.enqueue_many([((n,), {}) for n in range(1, 4)])
    beside = other.enqueue()
    for app in apps:
        run_all(app)
    held = (one.calls + two.calls, beside.state())
    clock.advance("10m")
    run_all(apps[1])

    assert held == ([0], State.DONE)
    assert sorted(two.calls) == [1, 2, 3]
    assert first.state() is (State.FAILED if fails else State.DONE)


def test_a_throttle_for_the_process_holds_nobody_else(open_app: OpenApp) -> None:
    apps = [open_app(), open_app()]
    one, two = (Calling(app, scope="process") for app in apps)

    with working(apps[0]):
        one.task.enqueue(0)
        until(lambda: one.calls == [0])
        until(lambda: apps[0].jobs.count(state="done") == 1)
        one.task.enqueue(1)
        with working(apps[1]):
            until(lambda: two.calls == [1])

    assert one.calls == [0]


def test_a_throttle_hands_back_what_waits_unstarted_in_the_worker(app: Duly) -> None:
    seen: list[int] = []

    @app.task(name="call")
    async def call(run: Run, n: int) -> None:
        seen.append(n)
        if n == 300:
            run.throttle("10m")
            await _until_held()

    async def _until_held() -> None:
        while app.jobs.count(state="running") > 1:
            await asyncio.sleep(0.005)

    with working(app, concurrency=1):
        call.enqueue_many([((n,), {}) for n in range(600)])
        until(lambda: 300 in seen and app.jobs.count(state="running") == 0)

    assert seen == list(range(301))
    assert {job.attempt for job in app.jobs.list(state="waiting")} == {0}


def test_a_throttle_does_not_shorten_an_operators_pause(timed_app: Duly, clock: VirtualClock) -> None:
    gate = Gate()

    @timed_app.task
    def call(run: Run) -> None:
        gate.wait_here()
        run.throttle("1m")

    with working(timed_app, concurrency=1):
        first = call.enqueue()
        gate.reached()
        timed_app.pause(task=call, reason="maintenance")
        second = call.enqueue()
        gate.open()
        ended(timed_app, first)
    clock.advance("1h")
    run_all(timed_app)

    assert second.state() is State.WAITING


def test_a_shorter_throttle_does_not_shorten_a_longer_one(timed_app: Duly, clock: VirtualClock) -> None:
    seen: list[str] = []

    @timed_app.task
    def call(run: Run, wait: str) -> None:
        seen.append(wait)
        run.throttle(wait)

    for wait in ("10m", "1m"):
        call.enqueue(wait)
    run_all(timed_app, concurrency=2)
    last = call.enqueue("0s")
    clock.advance("9m")
    run_all(timed_app)

    assert (sorted(seen), last.state()) == (["10m", "1m"], State.WAITING)


def test_a_child_process_can_throttle_too(errand_app: Duly) -> None:
    with working(errand_app):
        ended(errand_app, errands.throttle_from_child.enqueue(fails=True))
        held = errands.throttle_from_child.enqueue(fails=False)
        ended(errand_app, errands.quick.enqueue(1))

    assert held.state() is State.WAITING


# --- pause and resume ---------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["task", "queue"])
def test_a_pause_holds_work_and_drops_nothing(app: Duly, what: str) -> None:
    seen: list[int] = []

    @app.task(queue_name="mail")
    def send(n: int) -> None:
        seen.append(n)

    other = app.task(lambda: None)
    words: dict[str, Any] = {"task": send} if what == "task" else {"queue": "mail"}

    with working(app):
        app.pause(**words)
        handles = send.enqueue_many([((n,), {}) for n in range(5)])
        ended(app, other.enqueue())
        while_paused = (list(seen), {handle.state() for handle in handles})
        assert app.resume(**words)
        app.jobs.wait_all(handles, timeout="30s")

    assert while_paused == ([], {State.WAITING})
    assert sorted(seen) == [0, 1, 2, 3, 4]
    assert not app.resume(**words)


def test_a_pause_lets_what_runs_finish(app: Duly) -> None:
    gate = Gate()

    @app.task
    def work() -> None:
        gate.wait_here()

    with working(app):
        handle = work.enqueue()
        gate.reached()
        app.pause(task=work)
        gate.open()
        assert ended(app, handle).state is State.DONE


# --- limits over all workers --------------------------------------------------------------------


class Counting:
    """Counts how many bodies run at once, over all workers of this process."""

    def __init__(self) -> None:
        self.most = 0
        self.total = 0
        self._running = 0
        self._lock = threading.Lock()

    def work(self) -> None:
        with self._lock:
            self._running += 1
            self.total += 1
            self.most = max(self.most, self._running)
        time.sleep(0.005)
        with self._lock:
            self._running -= 1


def test_concurrency_limits_a_task_over_all_workers(open_app: OpenApp) -> None:
    apps, counting = [open_app(), open_app()], Counting()
    tasks = [app.task(name="work", concurrency=3)(counting.work) for app in apps]

    handles = tasks[0].enqueue_many([((), {}) for _ in range(40)])
    with several_working(*apps, concurrency=8):
        apps[0].jobs.wait_all(handles, timeout="30s")

    assert (counting.total, counting.most) == (40, 3)


def test_concurrency_per_key_limits_each_key_by_itself(open_app: OpenApp) -> None:
    apps = [open_app(), open_app()]
    started: list[str] = []
    gates = {word: Gate() for word in ("first", "second", "third", "elsewhere")}

    def work(word: str) -> None:
        started.append(word)
        gates[word].wait_here()

    tasks = [app.task(name="work", overlap="allow", concurrency_per_key=2)(work) for app in apps]
    with several_working(*apps, concurrency=8):
        for word in ("first", "second"):
            tasks[0].using(key="a").enqueue(word)
            gates[word].reached()
        third = tasks[0].using(key="a").enqueue("third")
        tasks[0].using(key="b").enqueue("elsewhere")
        gates["elsewhere"].reached()
        until(lambda: apps[0].jobs.get(third).is_parked)
        at_the_limit = list(started)
        gates["first"].open()
        gates["third"].reached()
        for gate in gates.values():
            gate.open()

    assert at_the_limit == ["first", "second", "elsewhere"]


def test_a_rate_limits_starts_over_all_workers(open_app: OpenApp, clock: VirtualClock) -> None:
    apps = [open_app(clock=clock) for _ in range(2)]
    starts: list[datetime] = []

    def call() -> None:
        starts.append(clock.now())

    tasks = [app.task(name="call", rate="10/m")(call) for app in apps]
    tasks[0].enqueue_many([((), {}) for _ in range(25)])
    for _ in range(5):
        for app in apps:
            run_all(app)
        clock.advance("30s")

    assert [starts.count(moment) for moment in sorted(set(starts))] == [10, 10, 5]
    assert {later - earlier for earlier, later in pairwise(sorted(set(starts)))} == {MINUTE}


def test_limits_do_not_drift_after_a_crash(open_app: OpenApp, clock: VirtualClock) -> None:
    """A slot is a job on loan: when a worker's lease ends, so does its hold on the limit."""
    app = open_app(clock=clock, lease="1h")
    gate = Gate()
    counting = Counting()

    @app.task(concurrency=1)
    def work(n: int) -> None:
        if n == 0 and counting.total == 0:
            counting.total += 1
            gate.wait_here()
        else:
            counting.work()

    with working(app, concurrency=1):
        stuck = work.enqueue(0)
        gate.reached()
        waits = work.enqueue(1)
        with working(app):
            until(lambda: len(app.store.run(app.store.workers())) == 2)
            full = waits.state()
            clock.advance("2h")
            app.jobs.wait_all([stuck, waits], timeout="30s")
            gate.open()

    assert full is State.WAITING
    assert counting.most == 1
    assert events(app.jobs.get(stuck))[:1] == ["lease ran out"]
