"""Asking for work: what is stored, when it runs, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from tests.stories.arrange import Gate, ended, events, run_all, until, working

import duly
from duly import Duly, Run, State
from duly.errors import (
    JobCancelled,
    JobFailed,
    JobSkipped,
    ResultNotKept,
    ResultTimeout,
    UnknownJob,
    WrongSignature,
)
from duly.testing import VirtualClock


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Parcel:
    weight: Decimal
    to: tuple[str, int]


def add(a: int, b: int = 0, *, times: int = 1) -> int:
    return (a + b) * times


# --- what is stored -----------------------------------------------------------------------------


def test_a_plain_call_runs_the_function_and_stores_nothing(app: Duly) -> None:
    task = app.task(add)

    assert task(2, 3, times=2) == 10
    assert app.jobs.count() == 0


def test_a_plain_call_of_a_task_with_a_run_gets_one(app: Duly) -> None:
    @app.task
    def ask(run: Run, question: str) -> str:
        run.progress(1)
        return f"{question} {run.attempt}"

    assert ask("which try?") == "which try? 1"


def test_enqueue_stores_one_job_that_waits_for_a_worker(app: Duly) -> None:
    task = app.task(name="add", queue_name="sums", priority=7)(add)

    handle = task.using(key="sum:1").enqueue(2, b=3)

    job = app.jobs.get(handle)
    assert (job.task, job.queue, job.priority, job.key) == ("add", "sums", 7, "sum:1")
    assert (job.state, job.attempt, job.epoch) == (State.WAITING, 0, 0)
    assert (handle.key, handle.generation, handle.decision) == ("sum:1", job.generation, "created")


def test_using_overrides_the_declaration_for_one_request(app: Duly) -> None:
    task = app.task(queue_name="sums", priority=7)(add)

    handle = task.using(priority=-5).using(queue_name="slow").enqueue(1)

    job = app.jobs.get(handle)
    assert (job.queue, job.priority) == ("slow", -5)
    assert app.jobs.get(task.enqueue(1)).queue == "sums"


def test_a_worker_runs_sync_and_async_bodies_and_keeps_what_they_return(app: Duly) -> None:
    @app.task(keep_result="1h")
    async def greet(name: str) -> str:
        return f"hello {name}"

    total = app.task(keep_result="1h")(add)

    with working(app):
        assert total.enqueue(2, 3, times=2).result(timeout="60s") == 10
        assert greet.enqueue("ada").result(timeout="60s") == "hello ada"


async def test_async_twins_do_the_same_on_the_callers_loop(app: Duly) -> None:
    @app.task(keep_result="1h")
    async def double(n: int) -> int:
        return 2 * n

    async with app.worker():
        handle = await double.aenqueue(4)
        many = await double.using(priority=5).aenqueue_many([((n,), {}) for n in range(3)])

        assert await handle.aresult(timeout="60s") == 8
        assert [job.state for job in await app.jobs.await_all(many, timeout="30s")] == [State.DONE] * 3
        assert await handle.astate() is State.DONE


@pytest.mark.parametrize("place", [0, 1, 2, "by name"])
def test_a_parameter_annotated_run_is_injected_wherever_it_stands(app: Duly, place: int | str) -> None:
    def first(run: Run, a: int, b: int) -> list[int]:
        return [a, b, run.attempt]

    def second(a: int, run: Run, b: int) -> list[int]:
        return [a, b, run.attempt]

    def last(a: int, b: int, run: Run) -> list[int]:
        return [a, b, run.attempt]

    def by_name(a: int, *, b: int, run: Run) -> list[int]:
        return [a, b, run.attempt]

    bodies: dict[int | str, Any] = {0: first, 1: second, 2: last, "by name": by_name}
    task: Any = app.task(keep_result="1h")(bodies[place])

    handle = task.enqueue(1, b=2)
    run_all(app)

    assert handle.result(timeout=0) == [1, 2, 1]
    with pytest.raises(WrongSignature):
        task.enqueue(1, b=2, run=None)


def test_arguments_and_results_keep_their_types(app: Duly) -> None:
    sent = {
        "when": datetime(2026, 11, 15, 2, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        "price": Decimal("12.50"),
        "id": UUID(int=7),
        "raw": b"\x00\xff",
        "pair": (1, "a"),
        "tags": {"x", "y"},
        "colour": Colour.RED,
        "parcel": Parcel(Decimal("0.1"), ("Oslo", 2)),
        "big": 2**80,
        "text": "Zoë ☃",
    }

    @app.task(keep_result="1h")
    def echo(value: dict[str, Any]) -> dict[str, Any]:
        return value

    handle = echo.enqueue(sent)
    run_all(app)

    back = handle.result(timeout=0)
    assert back == sent
    assert {name: type(value) for name, value in back.items()} == {
        name: type(value) for name, value in sent.items()
    }


def test_many_calls_become_as_many_jobs_in_order(app: Duly) -> None:
    task = app.task(keep_result="1h")(add)

    handles = task.enqueue_many([((n,), {"b": 1}) for n in range(50)])
    run_all(app)

    jobs = app.jobs.wait_all(handles, timeout="30s")
    assert [job.id for job in jobs] == [handle.id for handle in handles]
    assert [handle.result(timeout=0) for handle in handles] == list(range(1, 51))


def test_no_calls_become_no_jobs(app: Duly) -> None:
    assert app.task(add).enqueue_many([]) == []
    assert app.jobs.count() == 0


# --- time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "run_after",
    ["1h", 3600, timedelta(hours=1), datetime(2026, 3, 2, 18, 30, tzinfo=timezone(timedelta(hours=5.5)))],
    ids=["text", "seconds", "timedelta", "datetime"],
)
def test_a_job_never_runs_before_it_is_due(timed_app: Duly, clock: VirtualClock, run_after: Any) -> None:
    handle = timed_app.task(add).using(run_after=run_after).enqueue(1)

    clock.advance("59m 59s")
    run_all(timed_app)
    early = handle.state()
    clock.advance("1s")
    run_all(timed_app)

    assert (early, handle.state()) == (State.WAITING, State.DONE)


def test_a_worker_wakes_by_itself_when_a_job_becomes_due(app: Duly) -> None:
    task = app.task(add)

    with working(app):
        handle = task.using(run_after="150ms").enqueue(1)
        job = ended(app, handle)

    assert job.finished_at is not None
    assert timedelta(0) <= job.finished_at - job.due < timedelta(seconds=1)


def test_a_job_nobody_took_in_time_is_skipped(timed_app: Duly, clock: VirtualClock) -> None:
    handle = timed_app.task(expires="10m", keep_result="1h")(add).enqueue(1)

    clock.advance("11m")
    run_all(timed_app)

    with pytest.raises(JobSkipped, match="expired"):
        handle.result(timeout=0)


# --- results ------------------------------------------------------------------------------------


def test_a_result_that_is_not_kept_is_refused_at_once_by_name(app: Duly) -> None:
    handle = app.task(add).enqueue(1)

    with pytest.raises(ResultNotKept, match="keep_result='1h'"):
        handle.result()


def test_a_result_is_forgotten_when_its_time_is_over(timed_app: Duly, clock: VirtualClock) -> None:
    handle = timed_app.task(keep_result="1h")(add).enqueue(1)
    run_all(timed_app)
    assert handle.result(timeout=0) == 1

    clock.advance("2h")
    timed_app.store.run(timed_app.store.prune(10))

    with pytest.raises(ResultNotKept, match="no longer kept"):
        handle.result(timeout=0)


def test_waiting_for_a_result_ends_with_the_name_of_what_happened(app: Duly) -> None:
    @app.task(keep_result="1h")
    def explode() -> None:
        raise ValueError("out of cheese")

    failed, cancelled = explode.enqueue(), explode.using(run_after="1h").enqueue()
    cancelled.cancel()
    waiting = explode.using(run_after="1h").enqueue()
    run_all(app)

    with pytest.raises(JobFailed, match="out of cheese"):
        failed.result(timeout=1)
    with pytest.raises(JobCancelled, match="cancelled"):
        cancelled.result(timeout=1)
    with pytest.raises(ResultTimeout, match=waiting.id):
        waiting.result(timeout="20ms")


def test_a_result_that_cannot_be_stored_is_a_failure_that_says_so(app: Duly) -> None:
    @app.task(keep_result="1h")
    def open_door() -> object:
        return object()

    handle = open_door.enqueue()
    run_all(app)

    job = app.jobs.get(handle)
    assert (job.state, job.reason) == (State.FAILED, "result cannot be stored")
    assert "object" in (job.error or "")


def test_an_exception_without_a_readable_text_is_recorded_all_the_same(app: Duly) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    @app.task
    def fall_silent() -> None:
        raise Mute

    handle = fall_silent.enqueue()
    run_all(app)

    job = app.jobs.get(handle)
    assert job.state is State.FAILED
    assert "Mute" in (job.error or "")


def test_a_handle_is_found_again_by_id(app: Duly) -> None:
    task = app.task(keep_result="1h")(add)
    handle = task.enqueue(20, 3)
    run_all(app)

    assert app.get_result(handle.id).result(timeout=0) == 23
    with pytest.raises(UnknownJob, match="nobody"):
        app.get_result("nobody")


def test_progress_can_be_read_while_the_body_runs(app: Duly) -> None:
    gate = Gate()

    @app.task
    def copy(run: Run) -> None:
        run.progress(3, 10, "three of ten")
        gate.wait_here()

    with working(app):
        handle = copy.enqueue()
        progress = until(lambda: app.jobs.get(handle).progress)
        gate.open()

    assert '"done": 3' in progress
    assert "three of ten" in progress


def test_what_the_caller_bound_travels_into_the_run(app: Duly) -> None:
    seen: list[dict[str, object]] = []

    @app.task
    def note() -> None:
        seen.append(dict(duly.context.bound()))

    with duly.bind(user_id=7):
        note.enqueue()
    note.enqueue()
    run_all(app, concurrency=1)

    assert seen == [{"user_id": 7}, {}]


def test_the_history_tells_each_run_with_its_worker(app: Duly) -> None:
    handle = app.task(add).enqueue(1)
    with working(app) as worker:
        job = ended(app, handle)

    assert events(job) == ["done"]
    assert job.history[0].worker == worker.id
    assert (job.history[0].epoch, job.history[0].started_at is not None) == (1, True)
