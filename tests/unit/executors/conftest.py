"""Pools of real child processes, and how to see that a process is gone."""

from __future__ import annotations

import os
import queue
import select
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import pytest

from duly.executors.children import Children, Errand

HERE = str(Path(__file__).parent)


class OpenPool(Protocol):
    def __call__(
        self,
        size: int = 1,
        *,
        main_file: str | None = None,
        idle_after: timedelta = timedelta(minutes=5),
        start_within: timedelta = timedelta(minutes=1),
    ) -> Children: ...


@pytest.fixture
def open_pool() -> Iterator[OpenPool]:
    """Opens pools that find the bodies of these tests; closes them, and sees that nothing is left."""
    opened: list[Children] = []

    def open_one(
        size: int = 1,
        *,
        main_file: str | None = None,
        idle_after: timedelta = timedelta(minutes=5),
        start_within: timedelta = timedelta(minutes=1),
    ) -> Children:
        opened.append(
            Children(
                size,
                search_path=[HERE],
                main_file=main_file,
                idle_after=idle_after,
                start_within=start_within,
            )
        )
        return opened[-1]

    yield open_one
    for children in opened:
        children.close(grace=timedelta(0))
        assert children.alive == []


@pytest.fixture
def children(open_pool: OpenPool) -> Children:
    """A pool of one."""
    return open_pool()


class Mailbox:
    """Collects what a body emits, and lets a test wait for it."""

    def __init__(self) -> None:
        self._messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def __call__(self, message: bytes) -> None:
        self._messages.put(message)

    def next(self) -> bytes:
        return self._messages.get(timeout=60)

    def all(self) -> list[bytes]:
        return [self._messages.get() for _ in range(self._messages.qsize())]


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


class Run(Protocol):
    def __call__(self, entry: str, message: bytes = b"") -> bytes: ...


@pytest.fixture
def run(children: Children) -> Run:
    """Runs an entry of `bodies` in the pool of one and waits for its result."""

    def run_one(entry: str, message: bytes = b"") -> bytes:
        return children.submit(Errand(f"bodies:{entry}", message), ignore).result(60)

    return run_one


def ignore(_message: bytes) -> None:
    """Nobody listens."""


def ended_within(pid: int, seconds: float) -> bool:
    """Wait for the end of any process of this machine, ours or not."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def outcome(future: Future[bytes]) -> BaseException | None:
    return future.exception(60)
