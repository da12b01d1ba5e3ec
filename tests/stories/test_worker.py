"""A worker's life: what it takes, in which order, how it stops, and what it never keeps."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextvars import ContextVar
from typing import Any

import pytest
from tests.stories import errands
from tests.stories.arrange import (
    PATIENCE,
    Gate,
    OpenApp,
    Serving,
    ended,
    events,
    in_state,
    run_all,
    until,
    working,
)

from duly import Duly, Run, State, StoreUnavailable
from duly.ids import new_id
from duly.job import Request
from duly.stores.contract import Renewal, WorkerCard
from duly.stores.drive import Operation
from duly.worker.worker import WorkerDied

# --- what it takes ------------------------------------------------------------------------------


def test_a_higher_priority_goes_first_then_the_earlier_request(app: Duly) -> None:
    order: list[str] = []

    @app.task
    def note(word: str) -> None:
        order.append(word)

    for word, priority in [("low", -10), ("first", 0), ("second", 0), ("high", 10)]:
        note.using(priority=priority).enqueue(word)
    run_all(app, concurrency=1)

    assert order == ["high", "first", "second", "low"]


def test_a_worker_serves_only_the_queues_it_was_told(app: Duly) -> None:
    task = app.task(lambda: None)
    mail, video = task.using(queue_name="mail").enqueue(), task.using(queue_name="video").enqueue()

    run_all(app, queues=["mail"])

    assert (mail.state(), video.state()) == (State.DONE, State.WAITING)


def test_a_task_a_worker_does_not_know_is_left_for_one_that_does(open_app: OpenApp) -> None:
    old, new = open_app(), open_app()
    known = old.task(name="known")(lambda: None)
    new.task(name="known")(lambda: None)
    handle = new.task(name="new")(lambda: None).enqueue()

    with working(old):
        ended(old, known.enqueue())
        untouched = old.jobs.get(handle)
        with working(new):
            job = ended(new, handle)

    assert (untouched.state, untouched.epoch, untouched.history) == (State.WAITING, 0, ())
    assert (job.state, job.epoch) == (State.DONE, 1)


def test_a_row_nobody_can_decode_fails_alone(app: Duly) -> None:
    seen: list[int] = []

    @app.task(name="note")
    def note(n: int) -> None:
        seen.append(n)

    good = note.enqueue_many([((n,), {}) for n in range(5)])
    bad = [Request(id=f"bad-{n}", task="note", arguments=text) for n, text in enumerate(["{", "[1]", "null"])]
    app.store.run(app.store.put(bad))
    run_all(app)

    assert sorted(seen) == [0, 1, 2, 3, 4]
    assert {job.state for job in app.jobs.wait_all(good, timeout=1)} == {State.DONE}
    for request in bad:
        job = app.jobs.get(request.id)
        assert (job.state, job.reason) == (State.FAILED, "arguments cannot be decoded")


def test_arguments_that_no_longer_fit_the_function_fail_with_a_word_about_it(open_app: OpenApp) -> None:
    old, new = open_app(), open_app()

    @old.task(name="pay")
    def pay_before(amount: int) -> None:
        pass

    @new.task(name="pay")
    def pay(amount: int, currency: str) -> None:
        pass

    handle = pay_before.enqueue(5)
    run_all(new)

    job = new.jobs.get(handle)
    assert job.state is State.FAILED
    assert "currency" in (job.error or "")


def test_no_more_bodies_run_at_once_than_there_are_slots(app: Duly) -> None:
    running, most = 0, 0
    lock = threading.Lock()

    @app.task
    async def on_loop() -> None:
        await asyncio.to_thread(step)

    @app.task
    def step() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.002)
        with lock:
            running -= 1

    step.enqueue_many([((), {}) for _ in range(30)])
    on_loop.enqueue_many([((), {}) for _ in range(30)])
    run_all(app, concurrency=3)

    assert 1 < most <= 3


def test_what_one_body_binds_does_not_leak_into_the_next(app: Duly) -> None:
    word: ContextVar[str] = ContextVar("word", default="nothing")
    seen: list[str] = []

    @app.task
    async def on_loop() -> None:
        seen.append(word.get())
        word.set("left behind")

    @app.task
    def in_thread() -> None:
        seen.append(word.get())
        word.set("left behind")

    for task in (on_loop, in_thread, on_loop):  # enough of each that one starts the next by itself
        task.enqueue_many([((), {}) for _ in range(200)])
    run_all(app, concurrency=1)

    assert (len(seen), set(seen)) == (600, {"nothing"})


# --- how it stops -------------------------------------------------------------------------------


def test_a_stopping_worker_finishes_what_runs_and_takes_nothing_more(app: Duly) -> None:
    gate = Gate()

    @app.task
    def wait() -> None:
        gate.wait_here()

    serving = Serving(app, {"concurrency": 1})
    serving.start()
    runs, waits = wait.enqueue(), wait.enqueue()
    gate.reached()
    serving.worker.stop()
    gate.open()
    serving.join()

    assert (runs.state(), waits.state()) == (State.DONE, State.WAITING)
    assert app.store.run(app.store.workers()) == []


@pytest.mark.parametrize("place", ["loop", "thread", "child"])
def test_a_second_stop_hands_back_what_runs_and_counts_nothing(errand_app: Duly, place: str) -> None:
    tasks: dict[str, Any] = {
        "loop": errands.slow_on_loop,
        "thread": errands.slow,
        "child": errands.slow_alone,
    }

    serving = Serving(errand_app, {"concurrency": 1})
    serving.start()
    handle = tasks[place].enqueue("never")
    until(lambda: errands.lines("started"))
    serving.worker.stop()
    serving.worker.stop()
    serving.join()

    job = errand_app.jobs.get(handle)
    assert (job.state, job.attempt, job.crashes, job.is_suspect) == (State.WAITING, 0, 0, False)
    assert events(job) == ["release"]
    assert errands.lines("finished") == []


def test_a_body_that_started_at_most_once_is_not_handed_back_but_given_up(errand_app: Duly) -> None:
    serving = Serving(errand_app, {"concurrency": 1})
    serving.start()
    handle = errands.once.enqueue("never")
    until(lambda: errands.lines("started"))
    serving.worker.stop(now=True)
    serving.join()

    job = errand_app.jobs.get(handle)
    assert (job.state, job.reason) == (State.FAILED, "interrupted, outcome unknown")


def test_running_work_is_handed_back_when_the_grace_is_over(app: Duly) -> None:
    @app.task
    async def sleep() -> None:
        await asyncio.sleep(60)

    with working(app, grace="100ms"):
        handle = sleep.enqueue()
        in_state(app, handle, "running")

    job = app.jobs.get(handle)
    assert (job.state, events(job), job.attempt) == (State.WAITING, ["release"], 0)


async def test_a_job_nobody_rang_for_is_found_at_the_next_look(app: Duly) -> None:
    ran = asyncio.Queue[int]()

    @app.task
    async def note(number: int) -> None:
        ran.put_nowait(number)

    async with app.worker():
        first = note.enqueue(1)
        assert await asyncio.wait_for(ran.get(), PATIENCE) == 1
        while first.state() is not State.DONE:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # after an end it looks at once: that look must not find the next by chance
        app.store.run(app.store.put([Request(id=new_id(), task=note.name, arguments="[[2],{}]")]))
        assert await asyncio.wait_for(ran.get(), PATIENCE) == 2


async def test_leaving_the_block_lets_running_work_finish_also_after_a_stop(app: Duly) -> None:
    started = asyncio.Event()

    @app.task
    async def work() -> None:
        started.set()
        await asyncio.sleep(0.05)

    async with app.worker() as worker:
        handle = await work.aenqueue()
        await started.wait()
        worker.stop()

    assert handle.state() is State.DONE


def test_unstarted_claims_are_handed_back_when_the_worker_stops(app: Duly) -> None:
    gate = Gate()

    @app.task
    async def step(n: int) -> None:
        if n == 400:
            await gate.await_here()

    serving = Serving(app, {"concurrency": 1})
    serving.start()
    handles = step.enqueue_many([((n,), {}) for n in range(800)])
    gate.reached()
    serving.worker.stop()
    until(lambda: app.jobs.count(state="running") == 1)
    gate.open()
    serving.join()

    jobs = [app.jobs.get(handle) for handle in handles]
    assert {job.state for job in jobs[:401]} == {State.DONE}
    assert {job.state for job in jobs[401:]} == {State.WAITING}
    assert {(job.attempt, job.crashes, job.is_suspect) for job in jobs[401:]} == {(0, 0, False)}


def test_a_worker_told_to_stop_before_it_starts_takes_nothing(app: Duly) -> None:
    handle = app.task(lambda: None).enqueue()
    serving = Serving(app, {})

    serving.worker.stop()
    serving.start()
    serving.join()

    assert handle.state() is State.WAITING


# --- when it wears out or breaks ----------------------------------------------------------------


@pytest.mark.parametrize("limit", [{"max_jobs": 3}, {"max_memory": 1}], ids=["jobs", "memory"])
def test_a_worn_out_worker_ends_and_asks_for_a_successor(app: Duly, limit: dict[str, int]) -> None:
    handles = app.task(lambda: None).enqueue_many([((), {}) for _ in range(100)])

    serving = Serving(app, {"concurrency": 1, **limit})
    serving.start()
    serving.join()

    assert serving.worker.wants_successor
    assert app.jobs.count(state="running") == 0
    assert any(handle.state() is State.WAITING for handle in handles)


def test_a_dead_internal_loop_ends_the_worker_loudly(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    def renew(*_: Any) -> Operation[Renewal]:
        raise RuntimeError("a bug in the heartbeat")

    serving = Serving(app, {})
    with monkeypatch.context() as patched:
        serving.start()
        until(lambda: serving.worker.is_healthy)
        patched.setattr(app.store, "renew", renew)

        with pytest.raises(WorkerDied, match="a bug in the heartbeat"):
            serving.join()

    assert not serving.worker.is_healthy


def test_a_body_that_nobody_can_end_any_more_ends_the_worker_loudly(
    app: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing else is to be done, no next start would tell."""
    task = app.task(soft_limit="1m")(lambda: None)
    start = threading.Thread.start

    def start_all_but_one(thread: threading.Thread) -> None:
        if thread.name == "duly-deadlines":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_all_but_one)
    handle = task.enqueue()

    serving = Serving(app, {"concurrency": 1})
    serving.start()

    with pytest.raises(WorkerDied, match="can't start new thread"):
        serving.join()
    assert handle.state() is State.RUNNING


def test_an_outage_of_the_store_is_waited_for(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    task = app.task(lambda: None)
    run, calls = type(app.store).run, list[None]()

    def fail(*_: Any) -> Any:
        calls.append(None)
        raise StoreUnavailable("the network is down")

    with working(app) as worker:
        ended(app, task.enqueue())
        with monkeypatch.context() as patched:
            patched.setattr(type(app.store), "run", fail)
            until(lambda: len(calls) > 2)
        assert type(app.store).run is run
        job = ended(app, task.enqueue())
        assert worker.is_healthy

    assert job.state is State.DONE


def test_two_workers_of_one_name_are_two_workers(app: Duly) -> None:
    with working(app, name="same") as one, working(app, name="same") as two:
        cards = until(lambda: [card for card, _, _ in app.store.run(app.store.workers())][1:])

    assert one.id != two.id
    assert cards[0].name == "same"


def test_a_body_that_blocks_loop_or_interpreter_does_not_keep_the_lease_from_being_renewed(
    app: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    renew, renewed = app.store.renew, Counter[str]()

    def count(card: WorkerCard, *rest: Any) -> Operation[Renewal]:
        renewed.update(str(fence) for fence in rest[0])
        return renew(card, *rest)

    monkeypatch.setattr(app.store, "renew", count)

    def is_renewed() -> bool:
        """Both jobs, several times."""
        return len(renewed) == 2 and min(renewed.values()) >= 3

    @app.task
    def in_thread() -> None:
        end = time.monotonic() + PATIENCE
        while not is_renewed() and time.monotonic() < end:
            pass

    @app.task
    async def on_loop() -> None:
        until(is_renewed)  # blocks its loop on purpose

    with working(app), working(app):
        jobs = [in_thread.enqueue(), on_loop.enqueue()]
        done = [ended(app, job) for job in jobs]

    assert is_renewed()
    assert [(job.state, job.epoch) for job in done] == [(State.DONE, 1)] * 2


def test_a_lease_that_cannot_be_renewed_stops_the_bodies_before_it_ends(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_app(lease="3s")
    stopped = threading.Event()
    told: list[Run] = []

    @app.task
    async def on_loop() -> None:
        if stopped.is_set():
            return
        try:
            await asyncio.sleep(2 * PATIENCE)
        finally:
            stopped.set()

    @app.task
    def in_thread(run: Run) -> None:
        told.append(run)
        until(lambda: run.superseded)

    def fail(*_: Any) -> Any:
        raise StoreUnavailable("the network is down")

    with working(app):
        on_loop.enqueue()
        in_thread.enqueue()
        until(lambda: told and app.jobs.count(state="running") == 2)
        with monkeypatch.context() as patched:
            patched.setattr(type(app.store), "run", fail)
            assert stopped.wait(PATIENCE)
            until(lambda: told[0].superseded)
        until(lambda: app.jobs.count(state="done") == 2)

    assert {job.attempt for job in app.jobs.list()} == {0}
