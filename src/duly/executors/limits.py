"""Limits for bodies that an event loop drives.

Cancelling a task raises CancelledError in its body, which says nothing about why and which many libraries
swallow. Here a coroutine is driven by hand instead: the task is cancelled only to get it off the future it
waits for, and what the coroutine sees at its `await` is SoftLimitExceeded or LeaseLost.

A coroutine that blocks the loop cannot be reached by the loop. In a child process, `run_async` lets the
signal raise in the blocking code itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from datetime import timedelta
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE
from types import FrameType
from typing import Any, Final, Generic, TypeVar

from duly.errors import SoftLimitExceeded
from duly.executors.interrupts import INTERRUPTS, Wish, is_running

T = TypeVar("T")


class Interruptible(Generic[T]):
    """An awaitable around a coroutine, into which any exception can be thrown at its current `await`."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0  # by others, before we began
        self._thrown: BaseException | None = None
        self._wish: BaseException | None = None
        self._has_cancelled = False  # we cancelled the task to deliver the wish
        self._is_suspended = False
        self._has_ended = False

    def interrupt(self, exception: BaseException) -> bool:
        """Throw this into the body; False when it has ended. Only in the loop's thread.

        What the body waits for is cancelled first. If that is a task which resists, the body sees the
        exception when the task has ended, as with any cancellation.
        """
        if self._has_ended:
            return False
        self._wish = exception
        if self._is_suspended:
            self._wake()
        return True

    def __await__(self) -> Generator[Any, Any, T]:
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        try:
            return (yield from self._drive())
        except BaseExceptionGroup as group:
            thrown = self._thrown
            if thrown is not None and group.subgroup(lambda error: error is thrown):
                raise thrown from group  # a task group in the body has wrapped it
            raise
        finally:
            self._has_ended = True

    def _drive(self) -> Generator[Any, Any, T]:
        failure = self._exchange(None)
        while True:
            try:
                awaited = self._step(failure)
            except StopIteration as end:
                result: T = end.value
                return result
            failure = yield from self._suspended(awaited)

    def _step(self, failure: BaseException | None) -> Any:
        """Run the body up to its next `await`."""
        return self._coroutine.send(None) if failure is None else self._coroutine.throw(failure)

    def _suspended(self, awaited: Any) -> Generator[Any, Any, BaseException | None]:
        """Wait for what the body waits for; return what to throw into it, if anything."""
        self._is_suspended = True
        if self._wish is not None:
            self._wake()
        failure: BaseException | None = None
        try:
            yield awaited
        except BaseException as error:
            failure = error
        self._is_suspended = False
        return self._exchange(failure)

    def _wake(self) -> None:
        if self._task is not None and not self._has_cancelled:
            self._has_cancelled = True
            self._task.cancel()

    def _exchange(self, failure: BaseException | None) -> BaseException | None:
        """Replace our own cancellation by the wish. Somebody else's goes first, and the wish waits."""
        wish = self._wish
        if wish is None or isinstance(failure, GeneratorExit):
            return failure
        was_cancelled_by_others = self._take_back_cancel()
        if was_cancelled_by_others and isinstance(failure, asyncio.CancelledError):
            return failure
        self._thrown, self._wish = wish, None
        if failure is not None and not isinstance(failure, asyncio.CancelledError):
            wish.__context__ = failure
        return wish

    def _take_back_cancel(self) -> bool:
        """Undo our own cancel; returns whether somebody else has cancelled the task too."""
        if self._task is None or not self._has_cancelled:
            return False
        self._has_cancelled = False
        return self._task.uncancel() > self._cancelling


# Above this frame runs the body's own code.
DRIVING: Final = Interruptible[Any]._step.__code__  # pyright: ignore[reportPrivateUsage]


async def within(coroutine: Coroutine[Any, Any, T], soft_limit: timedelta | None) -> T:
    """Await the coroutine; past the limit, SoftLimitExceeded is raised in it where it waits."""
    return await limited(Interruptible(coroutine), soft_limit)


def run_async(coroutine: Coroutine[Any, Any, T], soft_limit: timedelta | None = None) -> T:
    """Run a coroutine in a child's main thread, so that what the parent sends comes out in the coroutine."""
    with asyncio.Runner() as runner:
        body = Interruptible(coroutine)
        before = INTERRUPTS.carried_by(_LoopCourier(runner.get_loop(), body))
        try:
            return runner.run(limited(body, soft_limit))
        finally:
            INTERRUPTS.carried_by(before)


async def limited(body: Interruptible[T], soft_limit: timedelta | None) -> T:
    """Await a body that others may interrupt as well; past the limit, SoftLimitExceeded is raised in it."""
    if soft_limit is None:
        return await body
    alarm = asyncio.get_running_loop().call_later(
        soft_limit.total_seconds(), partial(body.interrupt, SoftLimitExceeded())
    )
    try:
        return await body
    finally:
        alarm.cancel()


class _LoopCourier:
    """Takes wishes from the signal to a body in a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, body: Interruptible[Any]) -> None:
        self._loop = loop
        self._body = body

    def deliver(self, wish: Wish, frame: FrameType | None) -> None:
        if is_running(DRIVING, frame):
            wish.is_delivered = True
            raise wish.exception
        if wish.is_urgent and _is_in_coroutine(frame):
            raise wish.exception  # frees the loop, which then delivers the wish to the body
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._throw, wish)

    def _throw(self, wish: Wish) -> None:
        if not wish.is_delivered:
            wish.is_delivered = True
            self._body.interrupt(wish.exception())


def _is_in_coroutine(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
        frame = frame.f_back
    return frame is not None
