"""Entry functions with an event loop in them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from duly.errors import LeaseLost, SoftLimitExceeded
from duly.executors.limits import run_async

Emit = Callable[[bytes], None]
FOREVER = 100.0


def limited_await(_message: bytes, _emit: Emit) -> bytes:
    return run_async(_elapsed_until(asyncio.sleep(FOREVER)))


def limited_blocking_code(_message: bytes, _emit: Emit) -> bytes:
    return run_async(_elapsed_until(_block()))


def limited_blocking_subtask(_message: bytes, _emit: Emit) -> bytes:
    async def gather() -> None:
        await asyncio.gather(_block(), asyncio.sleep(FOREVER))

    return run_async(_elapsed_until(gather()))


def limited_blocking_stranger(_message: bytes, _emit: Emit) -> bytes:
    async def wait_beside_a_blocking_task() -> None:
        task = asyncio.create_task(_block())
        try:
            await asyncio.sleep(FOREVER)
        finally:
            await asyncio.wait([task])
            task.exception()  # seen, so that nobody complains

    return run_async(_elapsed_until(wait_beside_a_blocking_task()))


def heed_stop(_message: bytes, emit: Emit) -> bytes:
    async def wait() -> bytes:
        try:
            emit(b"running")
            await asyncio.sleep(FOREVER)
        except LeaseLost:
            await asyncio.sleep(0)  # tidying up may wait, too
            return b"tidied up"
        return b"nothing came"

    return run_async(wait())


def exit_politely(_message: bytes, _emit: Emit) -> bytes:
    async def leave() -> bytes:
        raise SystemExit(3)

    return run_async(leave())


async def _block() -> None:
    time.sleep(FOREVER)  # noqa: ASYNC251 - that is the point


async def _elapsed_until(wait: Awaitable[object]) -> bytes:
    begin = time.monotonic()
    try:
        await wait
    except SoftLimitExceeded:
        return str(time.monotonic() - begin).encode()
    return b"nothing came"
