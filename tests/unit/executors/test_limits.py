"""Exceptions thrown into a coroutine at its `await`, instead of a cancellation that says nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from datetime import timedelta

import pytest

from duly.errors import LeaseLost, SoftLimitExceeded
from duly.executors.limits import Interruptible, run_async, within

NOW = timedelta(0)
FOREVER = 100.0


def running_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task


async def test_a_body_in_time_returns_as_if_nothing_watched_it() -> None:
    async def body() -> str:
        await asyncio.sleep(0)
        return "in time"

    assert await within(body(), timedelta(minutes=1)) == "in time"
    assert await within(body(), None) == "in time"


async def test_a_failure_of_the_body_passes_unchanged() -> None:
    async def body() -> None:
        await asyncio.sleep(0)
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        await within(body(), timedelta(minutes=1))


async def test_past_the_limit_the_body_sees_it_where_it_waits() -> None:
    seen: list[str] = []

    async def body() -> None:
        try:
            await asyncio.sleep(FOREVER)
        except Exception:
            seen.append("swallowed")
        except SoftLimitExceeded:
            seen.append("at the await")
            raise

    with pytest.raises(SoftLimitExceeded):
        await within(body(), NOW)

    assert seen == ["at the await"]


async def test_a_body_that_catches_the_limit_may_wait_again_and_return() -> None:
    async def body() -> str:
        with contextlib.suppress(SoftLimitExceeded):
            await asyncio.sleep(FOREVER)
        await asyncio.sleep(0.01)
        return "tidied up"

    assert await within(body(), NOW) == "tidied up"
    assert running_task().cancelling() == 0


async def test_what_the_body_waited_for_is_cancelled() -> None:
    inner: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def body() -> None:
        await inner

    with pytest.raises(SoftLimitExceeded):
        await within(body(), NOW)

    assert inner.cancelled()


async def test_a_subtask_that_swallows_its_cancellation_does_not_swallow_the_limit() -> None:
    async def stubborn() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(FOREVER)
        return "went on"

    async def body() -> None:
        await asyncio.create_task(stubborn())

    with pytest.raises(SoftLimitExceeded):
        await within(body(), NOW)


async def test_the_limit_shows_through_a_task_group_of_the_body() -> None:
    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(FOREVER))
            await asyncio.sleep(FOREVER)

    with pytest.raises(SoftLimitExceeded) as raised:
        await within(body(), NOW)

    assert isinstance(raised.value.__cause__, BaseExceptionGroup)


async def test_a_group_that_has_nothing_to_do_with_the_limit_passes_unchanged() -> None:
    async def fail() -> None:
        raise ValueError("its own")

    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    with pytest.raises(ExceptionGroup) as raised:
        await within(body(), timedelta(minutes=1))

    assert raised.value.subgroup(ValueError) is not None


async def test_a_timeout_of_the_body_works_inside_the_limit() -> None:
    async def body() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.sleep(FOREVER)
        except TimeoutError:
            return "its own timeout"
        return "nothing came"

    assert await within(body(), timedelta(minutes=1)) == "its own timeout"


async def test_a_cancellation_from_outside_passes_as_such() -> None:
    waiting = asyncio.Event()

    async def body() -> None:
        waiting.set()
        await asyncio.sleep(FOREVER)

    task = asyncio.create_task(within(body(), timedelta(minutes=1)))
    await waiting.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_timeout_and_the_limit_at_one_moment_both_reach_the_body() -> None:
    seen: list[str] = []
    body: Interruptible[None]

    async def wait() -> None:
        try:
            try:
                async with asyncio.timeout(FOREVER) as deadline:
                    loop = asyncio.get_running_loop()
                    loop.call_soon(lambda: body.interrupt(SoftLimitExceeded()))
                    deadline.reschedule(loop.time() - 1)
                    await asyncio.sleep(FOREVER)
            except TimeoutError:
                seen.append("timeout")
            await asyncio.sleep(FOREVER)
        except SoftLimitExceeded:
            seen.append("limit")

    body = Interruptible(wait())
    await body

    assert seen in (["timeout", "limit"], ["limit"])
    assert running_task().cancelling() == 0


async def test_a_lost_lease_is_thrown_in_the_same_way() -> None:
    waiting = asyncio.Event()

    async def wait() -> str:
        try:
            waiting.set()
            await asyncio.sleep(FOREVER)
        except LeaseLost:
            return "told"
        return "nothing came"

    body = Interruptible(wait())
    task = asyncio.create_task(_await(body))
    await waiting.wait()

    assert body.interrupt(LeaseLost())
    assert await task == "told"
    assert not body.interrupt(LeaseLost())


async def test_a_body_interrupted_before_its_first_step_never_begins() -> None:
    begun: list[str] = []

    async def wait() -> None:
        begun.append("begun")

    body = Interruptible(wait())
    body.interrupt(LeaseLost())

    with pytest.raises(LeaseLost):
        await body
    assert begun == []


async def test_an_interrupt_from_within_the_body_strikes_at_its_next_wait() -> None:
    seen: list[str] = []
    body: Interruptible[None]

    async def interrupt_itself() -> None:
        body.interrupt(LeaseLost())
        seen.append("went on")
        await asyncio.sleep(FOREVER)

    body = Interruptible(interrupt_itself())

    with pytest.raises(LeaseLost):
        await body
    assert seen == ["went on"]


async def test_an_interrupt_in_the_last_step_leaves_its_task_in_peace() -> None:
    body: Interruptible[str]

    async def interrupt_itself() -> str:
        body.interrupt(LeaseLost())
        return "ended"

    body = Interruptible(interrupt_itself())

    assert await body == "ended"
    await asyncio.sleep(0)
    assert running_task().cancelling() == 0


def test_run_async_runs_a_coroutine_to_its_end_and_knows_the_limit() -> None:
    async def body() -> str:
        with contextlib.suppress(SoftLimitExceeded):
            await asyncio.sleep(FOREVER)
        return "ended"

    assert run_async(body(), NOW) == "ended"


async def _await(awaitable: Awaitable[str]) -> str:
    return await awaitable
