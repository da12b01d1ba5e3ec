"""An interrupt at any step of a write: nobody else is kept from writing, and nobody waits without end."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest
from tests.unit.sqlite.conftest import OpenDriver, until
from tests.unit.sqlite.notes import add, add_lightly, ruin, seen_from_outside, texts

from duly.errors import StoreUnavailable
from duly.stores.drive import Operation
from duly.stores.sqlite import writer
from duly.stores.sqlite.driver import Driver
from duly.stores.sqlite.filelock import FileLock
from duly.stores.sqlite.writer import Writer

PLACE = "/stores/sqlite/"
"""Where an interrupt strikes: in the part that waits, writes and answers."""


class Striker:
    """Raises at the n-th call of a function, where Python looks for signals too."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.has_struck = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or self.has_struck or PLACE not in frame.f_code.co_filename:
            return
        self._left -= 1
        if self._left == 0:
            self.has_struck = True
            raise KeyboardInterrupt


@contextmanager
def struck(number: int) -> Generator[Striker]:
    striker, before = Striker(number), sys.gettrace()
    sys.settrace(striker)
    try:
        yield striker
    finally:
        sys.settrace(before)


def steps(act: Callable[[int], Striker]) -> int:
    """Strike at every step in turn until none is left; answers how many there were."""
    number = 1
    while act(number).has_struck:
        number += 1
    return number - 1


def is_free(path: str) -> bool:
    """Whether another process could write."""
    lock = FileLock(path + "-duly.lock")
    try:
        return lock.try_acquire()
    finally:
        lock.close()


@pytest.mark.parametrize("added", [add, add_lightly])
def test_an_interrupt_at_any_step_of_a_lone_write_keeps_nobody_from_the_next(
    driver: Driver, path: str, added: Callable[[str], Operation[Any]]
) -> None:
    driver.run(add("first"))

    def strike(number: int) -> Striker:
        with struck(number) as striker:
            try:
                driver.run(added(f"struck {number}"))
            except KeyboardInterrupt:
                pass
            else:
                assert not striker.has_struck
        assert is_free(path), f"after step {number} the file is locked"
        driver.run(add(f"after {number}"))
        return striker

    assert steps(strike) >= 15


class Company:
    """A write that leads a batch of others, threads and a task, and is struck at some step of it."""

    def __init__(self, driver: Driver, threads: ThreadPoolExecutor, number: int) -> None:
        self._driver = driver
        self._threads = threads
        self._number = number
        self.striker = Striker(number)

    def go(self) -> list[Future[Any]]:
        go, stands = threading.Event(), threading.Event()

        def stand_still() -> None:
            stands.set()
            assert go.wait(60)

        first = self._threads.submit(
            self._driver.run, add_lightly(f"first {self._number}", before=stand_still)
        )
        assert stands.wait(60)
        struck = self._join(self._lead, add_lightly(f"struck {self._number}"))
        others = [
            self._join(self._driver.run, add_lightly(f"thread {self._number}")),
            self._join(lambda task: asyncio.run(self._driver.arun(task)), add(f"task {self._number}")),
            self._join(self._driver.run, add(f"another {self._number}")),
        ]
        go.set()
        first.result(60)
        assert isinstance(struck.exception(60), KeyboardInterrupt) is self.striker.has_struck
        return others

    def _lead(self, operation: Operation[Any]) -> None:
        with struck(self._number) as self.striker:
            self._driver.run(operation)

    def _join(self, act: Callable[[Operation[Any]], Any], operation: Operation[Any]) -> Future[Any]:
        """Queued behind the others, or struck before it got there."""
        joined = self._threads.submit(act, operation)
        until(lambda: self._is_queued(operation) or joined.done())
        return joined

    def _is_queued(self, operation: Operation[Any]) -> bool:
        desk: Any = getattr(self._driver, "_desk")  # noqa: B009  nobody else asks who waits
        return any(ticket.operation is operation for ticket in tuple(desk.writer._queue))


def test_an_interrupt_at_any_step_of_a_shared_write_leaves_nobody_waiting(
    open_driver: OpenDriver, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LOOK_UP", 0.002)
    driver = open_driver()
    stored = set[str]()

    def strike(number: int) -> Striker:
        company = Company(driver, threads, number)
        for name, other in zip(["thread", "task", "another"], company.go(), strict=True):
            error = other.exception(60)
            if error is None:
                stored.add(f"{name} {number}")
            else:
                assert isinstance(error, StoreUnavailable)
                assert "interrupted" in str(error)
        driver.run(add(f"after {number}"))
        assert is_free(path)
        return company.striker

    with ThreadPoolExecutor(8) as threads:
        assert steps(strike) >= 40
    assert stored <= set(seen_from_outside(path))


def test_an_interrupt_at_any_step_of_closing_leaves_the_file_to_others(driver: Driver, path: str) -> None:
    def strike(number: int) -> Striker:
        driver.run(add(f"before {number}"))
        with struck(number) as striker, suppress(KeyboardInterrupt):
            driver.close()
        assert is_free(path), f"after step {number} the file is locked"
        return striker

    assert steps(strike) >= 10


@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_at_any_step_around_a_fork_keeps_nobody_from_writing(
    driver: Driver, *, after: bool
) -> None:
    """What goes on afterwards is registered twice, so that one interrupt is not enough."""

    def strike(number: int) -> Striker:
        driver.run(add(f"before {number}"))
        if after:
            driver.before_fork()
        with struck(number) as striker, suppress(KeyboardInterrupt):
            (driver.after_fork_in_parent if after else driver.before_fork)()
        driver.after_fork_in_parent()
        threads.submit(driver.run, add(f"after {number}")).result(60)
        threads.submit(driver.open).result(60)
        return striker

    with ThreadPoolExecutor(1) as threads:
        assert steps(strike) >= 3


def test_a_pen_that_was_struck_while_it_was_put_down_writes_again(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.run(add("before"))
    pen: Any = getattr(driver, "_desk")._pen  # noqa: B009  nobody else asks

    class Slow:
        """The second handle, whose closing writes back the log."""

        def close(self) -> None:
            raise KeyboardInterrupt

    pen._second.close()
    pen._second = Slow()
    with pytest.raises(KeyboardInterrupt):
        driver.before_fork()
    driver.after_fork_in_parent()

    assert driver.run(add("after")) == 2


def test_whoever_is_put_back_is_not_forgotten(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A statement undoes everybody's transaction; the interrupt comes before they wait for the next."""
    put_back, is_struck = Writer.put_back, list[bool]()

    def strike_once(self: Writer, tickets: Any) -> None:
        if not is_struck:
            is_struck.append(True)
            raise KeyboardInterrupt
        put_back(self, tickets)

    monkeypatch.setattr(Writer, "put_back", strike_once)
    go, stands = threading.Event(), threading.Event()

    def stand_still() -> None:
        stands.set()
        assert go.wait(60)

    with ThreadPoolExecutor(4) as threads:
        leader = threads.submit(driver.run, add("leader", before=stand_still))
        assert stands.wait(60)
        others = list[Future[Any]]()
        waiting: list[Operation[Any]] = [add("a"), ruin(), add("b")]
        for place, operation in enumerate(waiting, 1):
            others.append(threads.submit(driver.run, operation))
            until(lambda: driver.queued == place)  # noqa: B023  at once
        go.set()

        with pytest.raises(KeyboardInterrupt):
            leader.result(60)
        with pytest.raises(StoreUnavailable, match="interrupted"):
            others[0].result(60)
        others[2].result(60)

    assert driver.run(texts()) == ["b"]
