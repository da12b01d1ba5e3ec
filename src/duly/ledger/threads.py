"""Blocking calls of a coroutine, in a thread whose end is waited for.

A cancelled `asyncio.to_thread` leaves its thread behind at work. Here that would be on a connection that is
rolled back and closed next, or a claim that nobody would hear of.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """The result of a blocking call. Who is cancelled meanwhile hears of it when the call has ended.

    What it made for somebody who is no longer there to use it is then given to `undo`.
    """
    work = _begun(call)
    cancelled = await _ended(work)
    if cancelled is None:
        return work.result()
    if work.exception() is None and undo is not None:
        undoing = _begun(partial(undo, work.result()))
        await _ended(undoing)
        undoing.exception()  # looked at, and let go: the cancellation is what is told
    raise cancelled


def _begun(call: Callable[[], T]) -> asyncio.Future[T]:
    """Not a task: those are all cancelled when their loop comes to an end."""
    context = contextvars.copy_context()
    return asyncio.get_running_loop().run_in_executor(None, lambda: context.run(call))


async def _ended(work: asyncio.Future[T]) -> asyncio.CancelledError | None:
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled
