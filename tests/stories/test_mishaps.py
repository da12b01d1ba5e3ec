"""What a body, a hook, a row or a moment of bad luck can do, and must not cost anybody else."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.stories.arrange import Gate, OpenApp, Serving, run_all, until, working

from duly import ConditionFailed, DefinitionError, Duly, LeaseLost, RetryAfter, Run, State
from duly.errors import BadRequest, SchemaMismatch, StoreUnavailable
from duly.events import Event
from duly.kinds import periodic
from duly.stores.drive import Operation

T = TypeVar("T")


@contextmanager
def failing_once(app: Duly, name: str, *, after: bool = False) -> Generator[list[str], None, None]:
    """The next operation of that name fails: before it is done, or after, with its answer lost."""
    store, failed = app.store, list[str]()
    perform = store.run

    def run(operation: Operation[T]) -> T:
        if operation.name != name or failed:
            return perform(operation)
        failed.append(name)
        if after:
            perform(operation)
        raise StoreUnavailable(f"{name} met a hiccup")

    store.run = run  # type: ignore[method-assign]
    try:
        yield failed
    finally:
        store.run = perform  # type: ignore[method-assign]


@pytest.mark.parametrize("after", [False, True], ids=["before it is recorded", "after it is recorded"])
def test_a_start_that_could_not_be_recorded_happens_later_and_once(app: Duly, *, after: bool) -> None:
    runs: list[str] = []

    @app.task(delivery="at_most_once")
    def once() -> None:
        runs.append("once")

    job = once.enqueue()
    with failing_once(app, "begin", after=after) as failed, working(app):
        until(lambda: job.state() is State.DONE)

    assert (failed, runs) == (["begin"], ["once"])


@pytest.mark.parametrize("operation", ["turn", "renew", "report", "prune"])
def test_a_hiccup_of_any_operation_loses_nothing(app: Duly, operation: str) -> None:
    runs: list[int] = []

    @app.task
    def count(run: Run, number: int) -> None:
        run.progress(number)
        runs.append(number)

    jobs = count.enqueue_many([((number,), {}) for number in range(20)])
    with failing_once(app, operation, after=True), working(app):
        app.jobs.wait_all(jobs, timeout="30s")

    assert set(runs) == set(range(20))


async def leave() -> None:
    raise GeneratorExit


def test_a_body_that_raises_generator_exit_frees_its_slot(app: Duly) -> None:
    leaving = app.task(leave)

    @app.task
    async def other() -> None: ...

    first, second = leaving.enqueue(), other.enqueue()
    run_all(app, concurrency=1)

    assert (first.state(), second.state()) == (State.FAILED, State.DONE)


def test_a_hook_that_hangs_takes_no_slot_from_the_work(app: Duly) -> None:
    gate = Gate()

    def hook(_failure: object) -> None:
        gate.wait_here()

    @app.task(on_failure=hook)
    def broken() -> None:
        raise ValueError

    @app.task
    def sound() -> None: ...

    broken.enqueue()
    with working(app, concurrency=1):
        gate.reached()
        job = sound.enqueue()
        until(lambda: job.state() is State.DONE)
        gate.open()


def say_progress(run: Run) -> None:
    run.progress(Decimal(1))  # type: ignore[arg-type]


def say_throttle(run: Run) -> None:
    run.throttle("1ms", reason="\ud800")


def say_condition(run: Run) -> None:
    raise ConditionFailed("\ud800")


@pytest.mark.parametrize("body", [say_progress, say_throttle, say_condition])
def test_nothing_a_body_says_ends_the_worker(app: Duly, body: Any) -> None:
    odd = app.task(body)

    @app.task
    def other() -> None: ...

    said, job = odd.enqueue(), other.enqueue()
    with working(app):
        app.jobs.wait_all([said, job], timeout="30s")

    assert job.state() is State.DONE


def test_progress_that_is_no_number_is_an_error_in_the_body(app: Duly) -> None:
    odd = app.task(say_progress)
    job = odd.enqueue()

    run_all(app)

    assert BadRequest.__name__ in (app.jobs.get(job).error or "")


def test_a_perpetual_outlives_an_end_that_cannot_be_judged(app: Duly) -> None:
    cycles: list[int] = []

    @app.perpetual(every="10ms")
    def poll(run: Run) -> None:
        cycles.append(run.epoch)
        raise RetryAfter("soon")

    poll.enqueue()
    with working(app):
        until(lambda: len(cycles) >= 3)


def test_a_body_on_a_loop_that_goes_down_is_handed_back(app: Duly) -> None:
    gate = Gate()

    @app.task
    async def patient() -> None:
        await gate.await_here()

    job = patient.enqueue()

    async def serve_and_fall() -> None:
        async with app.worker(grace="0s"):
            await asyncio.to_thread(gate.reached)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(serve_and_fall())

    assert job.state() is State.WAITING
    assert app.jobs.get(job).attempt == 0


def test_one_signal_after_a_migration_still_grants_the_grace(app: Duly) -> None:
    gate = Gate()

    @app.task
    def long() -> None:
        gate.wait_here()

    job = long.enqueue()
    serving = Serving(app, {})
    serving.start()
    gate.reached()
    serving.worker._overtaken(SchemaMismatch("newer"))  # pyright: ignore[reportPrivateUsage]
    serving.worker.stop()  # what an orchestrator sends once
    gate.open()
    serving.join()

    assert job.state() is State.DONE


def test_a_run_that_lost_its_lease_cannot_enqueue(app: Duly) -> None:
    gate, refused = Gate(), threading.Event()

    @app.task
    def other() -> None: ...

    @app.task
    def zombie(run: Run) -> None:
        run.is_lost = True  # as the heartbeat says it
        try:
            other.enqueue()
        except LeaseLost:
            refused.set()
        gate.open()

    zombie.enqueue()
    run_all(app)

    assert refused.is_set()
    assert app.jobs.count(task=other.name) == 0


def test_a_request_for_the_own_key_in_a_transaction_waits_for_its_commit(tmp_path: Path) -> None:
    app = Duly(f"sqlite:///{tmp_path / 'duly.db'}", lease="30s", poll="50ms")
    runs: list[str] = []

    @app.task
    def renewing(note: str = "first") -> None:
        runs.append(note)
        if note != "first":
            return
        for word, ends in (("rolled back", "rollback"), ("committed", "commit")):
            with sqlite3.connect(tmp_path / "duly.db", isolation_level=None) as connection:
                connection.execute("begin immediate")
                renewing.using(key="k", connection=connection).enqueue(word)
                connection.execute(ends)
            connection.close()

    renewing.using(key="k").enqueue()
    with working(app):
        until(lambda: runs[1:])

    assert runs == ["first", "committed"]
    app.close()


def test_a_worker_that_starts_while_the_file_is_locked_waits_for_it(tmp_path: Path) -> None:
    app = Duly(f"sqlite:///{tmp_path / 'duly.db'}", lease="1s", poll="50ms")
    handle = app.task(quick).enqueue()
    lock = sqlite3.connect(tmp_path / "duly.db", isolation_level=None, check_same_thread=False)
    lock.execute("begin immediate")

    serving = Serving(app, {})
    serving.start()
    threading.Timer(0.8, lambda: lock.execute("rollback")).start()
    until(lambda: handle.state() is State.DONE)
    serving.worker.stop()
    serving.join()

    lock.close()
    app.close()


def quick() -> None: ...


def test_a_worker_serves_once(app: Duly) -> None:
    worker = app.worker(burst=True)
    asyncio.run(worker.serve())

    with pytest.raises(DefinitionError, match="served already"):
        asyncio.run(worker.serve())


def test_the_engines_queues_are_not_for_tasks(app: Duly) -> None:
    task = app.task(quick)

    with pytest.raises(DefinitionError, match="belong to the engine"):
        task.using(queue_name=periodic.QUEUE).enqueue()


def test_a_cancelled_run_is_announced_as_such(app: Duly) -> None:
    gate, heard, hooks = Gate(), list[Event](), list[object]()
    app.events.subscribe(heard.append)

    @app.task(on_failure=hooks.append)
    async def stubborn() -> None:
        await gate.await_here()

    job = stubborn.enqueue()
    with working(app):
        gate.reached()
        job.cancel()
        until(lambda: heard)

    assert [event.kind for event in heard] == ["cancelled"]
    assert hooks == []


def test_a_busy_worker_ticks_all_the_same(open_app: OpenApp) -> None:
    app, gate, ticks = open_app(concurrency=1), Gate(), list[object]()

    @app.task
    def long() -> None:
        gate.wait_here()

    @app.schedule(every="1s", missed="all")
    @app.task
    def tick(run: Run) -> None:
        ticks.append(run.tick)

    long.enqueue()
    with working(app):
        gate.reached()
        until(lambda: app.jobs.count(task=tick.name, state="waiting") >= 2)
        gate.open()
        until(lambda: len(ticks) >= 2)
