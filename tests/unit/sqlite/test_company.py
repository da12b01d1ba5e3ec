"""Who is waited for before a commit, and for how long."""

from __future__ import annotations

import threading
from collections import deque

import pytest
from tests.unit.sqlite.conftest import until

from duly.stores.sqlite import company
from duly.stores.sqlite.company import Company

LONG = 60.0


class Line:
    """A queue, and one who waits in a thread of his own for the others to come."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._queue = deque[int]()
        self.company = Company(self._queue, self._mutex)

    def come(self) -> None:
        with self._mutex:
            self._queue.append(len(self._queue))
            self.company.join()

    def wait(self) -> threading.Thread:
        waiting = threading.Thread(target=self.company.wait, daemon=True)
        waiting.start()
        return waiting

    @property
    def is_waited_in(self) -> bool:
        return getattr(self.company, "_gate") is not None  # noqa: B009  nobody else asks


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be as busy as it likes."""
    monkeypatch.setattr(company, "GAP", LONG)


def test_nobody_is_waited_for_who_was_not_there_the_last_time(line: Line, patient: None) -> None:
    line.company.part(1)

    assert not line.company.is_near
    line.company.wait()


def test_as_many_as_the_last_time_are_waited_for(line: Line, patient: None) -> None:
    line.company.part(3)
    line.come()
    waiting = line.wait()
    until(lambda: line.is_waited_in)

    line.come()
    assert waiting.is_alive()
    line.come()
    waiting.join(LONG)

    assert not waiting.is_alive()
    assert not line.is_waited_in


def test_nobody_is_waited_for_where_all_have_come(line: Line, patient: None) -> None:
    line.company.part(2)
    line.come()
    line.come()

    line.company.wait()


def test_those_who_do_not_come_back_are_not_waited_for_long(line: Line) -> None:
    line.company.part(8)
    line.come()

    line.company.wait()
    line.company.wait()

    assert not line.is_waited_in


def test_those_who_parted_long_ago_are_not_waited_for(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(company, "GAP", 0.0)
    line.company.part(8)

    assert not line.company.is_near
