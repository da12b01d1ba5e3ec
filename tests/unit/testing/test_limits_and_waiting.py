"""What a virtual worker does not enforce, what it refuses to do for ever, and waiting for results."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from duly import Duly, ResultTimeout, Run, State
from duly.testing import Ran, StillDue, WorkingClock

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def outcomes(runs: list[Ran]) -> list[str]:
    return [ran.outcome for ran in runs]


def test_process_tasks_and_time_limits_run_here_without_their_limits(app: Duly, clock: WorkingClock) -> None:
    threads: list[threading.Thread] = []

    @app.task(soft_limit="1s", hard_limit="2s", executor="process")
    def slow() -> None:
        clock.advance("1h")
        threads.append(threading.current_thread())

    slow.enqueue()

    assert outcomes(clock.run_due()) == ["done"]
    assert threads == [threading.current_thread()]


def test_a_long_body_keeps_its_lease_by_beating(app: Duly, clock: WorkingClock) -> None:
    others: list[Ran] = []

    @app.task
    def slow() -> None:
        clock.advance("1h")
        others.extend(clock.run_due())

    slow.enqueue()

    assert outcomes(clock.run_due()) == ["done"]
    assert others == []


def test_a_body_is_told_at_the_next_beat_that_it_was_cancelled(app: Duly, clock: WorkingClock) -> None:
    seen: list[bool] = []

    @app.task
    def slow(run: Run) -> None:
        with clock.elsewhere():
            app.jobs.cancel(run.id)
        seen.append(run.cancelled)
        clock.advance("10s")
        seen.append(run.cancelled)

    slow.enqueue()
    (ran,) = clock.run_due()

    assert (seen, ran.state) == ([False, True], State.CANCELLED)


def test_a_body_that_asks_what_is_due_is_served_by_another_worker(app: Duly, clock: WorkingClock) -> None:
    @app.task(name="child")
    def child() -> None: ...

    @app.task(name="parent")
    def parent() -> None:
        child.enqueue()
        clock.run_due()

    parent.enqueue()
    clock.run_due()

    assert [ran.task for ran in clock.runs] == ["child", "parent"]


def test_a_perpetual_without_a_wait_is_named_instead_of_hanging(app: Duly, clock: WorkingClock) -> None:
    @app.perpetual(name="eager", every="1h")
    def eager(run: Run) -> None:
        run.again(after=0)

    eager.enqueue()
    with pytest.raises(StillDue, match=r"eager \(50 runs\)"):
        clock.run_due(limit=50)


def test_a_task_that_always_defers_by_nothing_is_named_too(app: Duly, clock: WorkingClock) -> None:
    @app.task(name="shy", max_deferrals=1_000_000)
    def shy(run: Run) -> None:
        run.defer(0)

    shy.enqueue()
    with pytest.raises(StillDue, match=r"shy \(1000 runs\)"):
        clock.run_due()


def test_a_task_that_enqueues_itself_for_ever_is_named_too(app: Duly, clock: WorkingClock) -> None:
    @app.task(name="echo")
    def echo() -> None:
        echo.enqueue()

    echo.enqueue()
    with pytest.raises(StillDue, match="echo"):
        clock.run_due(limit=30)


def test_a_stretch_of_time_with_too_much_in_it_is_an_error_too(app: Duly, clock: WorkingClock) -> None:
    @app.perpetual(name="eager", every="1ms")
    def eager() -> None: ...

    eager.enqueue()
    with pytest.raises(StillDue, match="eager"):
        clock.run_until("1h", limit=100)


def test_waiting_for_a_result_that_cannot_come_is_bounded(app: Duly, clock: WorkingClock) -> None:
    @app.task(keep_result="1h")
    def held() -> None: ...

    app.pause(task=held)
    job = held.enqueue()

    with pytest.raises(ResultTimeout):
        job.result()


def test_exactly_as_many_runs_as_the_limit_are_no_error(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail() -> None: ...

    for _ in range(5):
        mail.enqueue()

    assert len(clock.run_due(limit=5)) == 5


def test_nothing_here_takes_real_time(app: Duly, clock: WorkingClock) -> None:
    @app.schedule(every="1h")
    @app.task
    def report() -> None: ...

    started = time.monotonic()
    clock.run_until("7d")

    assert len(clock.runs) == 7 * 24
    assert time.monotonic() - started < 60


def test_waiting_for_a_result_lets_virtual_time_pass(app: Duly, clock: WorkingClock) -> None:
    @app.task(keep_result="1h")
    def add(first: int, second: int) -> int:
        return first + second

    job = add.using(run_after="20m").enqueue(2, 3)

    assert job.result(timeout="1h") == 5
    assert clock.now() == NOON + timedelta(minutes=20)


def test_a_result_that_does_not_come_in_time_is_a_time_out_in_virtual_time(
    app: Duly, clock: WorkingClock
) -> None:
    @app.task(keep_result="1h")
    def add() -> int:
        return 1

    job = add.using(run_after="2h").enqueue()

    with pytest.raises(ResultTimeout):
        job.result(timeout="1h")
    assert clock.now() == NOON + timedelta(hours=1)


def test_wait_all_lets_virtual_time_pass(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail() -> None: ...

    jobs = [mail.using(run_after=f"{hours}h").enqueue() for hours in (3, 1)]

    assert [job.id for job in app.jobs.wait_all(jobs, timeout="1d")] == [job.id for job in jobs]
    assert clock.now() == NOON + timedelta(hours=3)
    with pytest.raises(ResultTimeout):
        app.jobs.wait_all([mail.using(run_after="3h").enqueue()], timeout="1h")


async def test_async_waiting_lets_virtual_time_pass(app: Duly, clock: WorkingClock) -> None:
    @app.task(keep_result="1h")
    async def add() -> int:
        return 5

    first, second = await add.using(run_after="1h").aenqueue(), await add.using(run_after="2h").aenqueue()

    assert await first.aresult(timeout="1d") == 5
    await app.jobs.await_all([first, second], timeout="1d")
    assert clock.now() == NOON + timedelta(hours=2)
