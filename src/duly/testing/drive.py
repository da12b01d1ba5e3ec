"""One description of what the virtual worker does, driven with or without a running loop.

Steps yield the coroutines of async bodies and are sent what these return. `Driver.drive` runs them on a
loop of its own, so that a plain test needs none; `adrive` awaits them on the test's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

from duly.errors import DulyError

T = TypeVar("T")

Body = Coroutine[Any, Any, Any]
Steps = Generator[Body, Any, T]


class LoopIsRunning(DulyError):
    """An async task met in the sync half of the API, inside a running loop."""

    def __init__(self) -> None:
        super().__init__(
            "An async task is due and a loop is running already: write `await clock.arun_due()`, "
            "`arun_until` or `athaw` in async tests."
        )


class Abandoned(BaseException):
    """Thrown into steps whose driver cannot go on: what is in hand is handed back."""


class Driver:
    """Runs async bodies on a private loop, which lives as long as the driver: clients may be kept open."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def drive(self, steps: Steps[T]) -> T:
        """To the end, blocking."""
        advance: Callable[[], Body] = lambda: next(steps)  # noqa: E731
        while True:
            try:
                body = advance()
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            if is_loop_running():
                body.close()
                _abandon(steps)
                raise LoopIsRunning
            advance = self._run(steps, body)

    def _run(self, steps: Steps[T], body: Body) -> Callable[[], Body]:
        if self._runner is None:
            # With a factory the runner leaves the thread's current loop alone, which may be a plugin's.
            self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        try:
            value = self._runner.run(body, context=copy_context())
        except BaseException as error:
            failure = error
            return lambda: steps.throw(failure)
        return lambda: steps.send(value)

    def close(self) -> None:
        """End the private loop, if there was one."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None


async def adrive(steps: Steps[T]) -> T:
    """To the end, on the running loop."""
    advance: Callable[[], Body] = lambda: next(steps)  # noqa: E731
    while True:
        try:
            body = advance()
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        advance = await _await(steps, body)


async def _await(steps: Steps[T], body: Body) -> Callable[[], Body]:
    try:
        value = await body
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and _is_cancelled():
            _abandon(steps)  # the test itself was cancelled, by a timeout for example
            raise
        failure = error
        return lambda: steps.throw(failure)
    return lambda: steps.send(value)


def _abandon(steps: Steps[Any]) -> None:
    with suppress(Abandoned):
        _ = steps.throw(Abandoned())


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_loop_running() -> bool:
    """Whether this thread is inside a loop already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
