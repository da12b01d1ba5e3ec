"""Async tasks: on a loop of their own in plain tests, on the test's loop in async ones."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from duly import Duly, Retry, Run, State
from duly.testing import Ran, WorkingClock
from duly.testing.drive import LoopIsRunning
from duly.worker.failures import Failure

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def outcomes(runs: list[Ran]) -> list[str]:
    return [ran.outcome for ran in runs]


def test_async_tasks_run_on_a_loop_of_their_own_that_stays(app: Duly, clock: WorkingClock) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    @app.task
    async def fetch(run: Run) -> None:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())

    fetch.enqueue()
    clock.run_due()
    fetch.enqueue()
    clock.run_due()

    assert len(loops) == 2
    assert loops[0] is loops[1]


def test_async_failures_are_retried_like_others(app: Duly, clock: WorkingClock) -> None:
    @app.task(retry=Retry(on=OSError, attempts=2, first="1m"))
    async def fetch() -> None:
        await asyncio.sleep(0)
        raise OSError("down")

    fetch.enqueue()

    assert outcomes(clock.run_until("1h")) == ["retry", "fail"]


def test_an_async_body_makes_its_requests_as_the_current_run(app: Duly, clock: WorkingClock) -> None:
    @app.task
    async def crawl(page: int) -> None:
        if page == 1:
            assert (await crawl.using(key="site").aenqueue(2)).decision == "pending"

    crawl.using(key="site").enqueue(1)

    assert outcomes(clock.run_due()) == ["done", "done"]


async def test_an_async_test_awaits_what_is_due(app: Duly, clock: WorkingClock) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    @app.task
    async def fetch() -> None:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())

    await fetch.aenqueue()
    await fetch.using(run_after="1h").aenqueue()

    assert outcomes(await clock.arun_due()) == ["done"]
    assert outcomes(await clock.arun_until("2h")) == ["done"]
    assert set(loops) == {asyncio.get_running_loop()}


async def test_an_async_test_sees_failures_of_async_bodies(app: Duly, clock: WorkingClock) -> None:
    @app.task(retry=Retry(on=OSError, attempts=2, first="1m"))
    async def fetch() -> None:
        await asyncio.sleep(0)
        raise OSError("down")

    await fetch.aenqueue()

    assert outcomes(await clock.arun_until("1h")) == ["retry", "fail"]


async def test_the_sync_half_says_what_to_write_in_an_async_test(app: Duly, clock: WorkingClock) -> None:
    @app.task
    async def fetch() -> None: ...

    job = await fetch.aenqueue()
    with pytest.raises(LoopIsRunning, match=r"await clock\.arun_due"):
        clock.run_due()

    assert (await job.astate(), app.jobs.get(job).attempt) == (State.WAITING, 0)
    assert outcomes(await clock.arun_due()) == ["done"]


async def test_sync_tasks_may_be_run_from_an_async_test_either_way(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail() -> None: ...

    mail.enqueue()
    assert outcomes(clock.run_due()) == ["done"]
    mail.enqueue()
    assert outcomes(await clock.arun_due()) == ["done"]


async def test_cancelling_the_test_does_not_fail_the_job(app: Duly, clock: WorkingClock) -> None:
    started = asyncio.Event()

    @app.task
    async def endless() -> None:
        started.set()
        await asyncio.Event().wait()

    job = await endless.aenqueue()
    running = asyncio.create_task(clock.arun_due())
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert (await job.astate(), app.jobs.get(job).attempt) == (State.WAITING, 0)


async def test_an_async_failure_hook_is_awaited(app: Duly, clock: WorkingClock) -> None:
    told: list[Failure] = []

    async def tell(failure: Failure) -> None:
        await asyncio.sleep(0)
        told.append(failure)

    @app.task(on_failure=tell)
    def mail() -> None:
        raise OSError("down")

    mail.enqueue()
    await clock.arun_due()

    assert [failure.reason for failure in told] == ["failed"]
