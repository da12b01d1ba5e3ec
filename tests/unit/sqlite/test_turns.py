"""Whose turn it is among the bodies of one process: short ones of one thread follow each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from duly.stores.sqlite import turns
from duly.stores.sqlite.turns import GaveUp, Line, Turn

LONG = 60.0
PATIENCE = 30.0


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return Line(str(tmp_path / "jobs.db"))


class Waiting:
    """A body in a thread of its own, from the moment it waits; it holds its turn until told."""

    def __init__(self, line: Line, *, is_wanted: Callable[[], bool] = lambda: True) -> None:
        self.is_in, self.may_leave = threading.Event(), threading.Event()
        self.has_given_up = False
        self._turn = Turn(line)
        self._is_wanted = is_wanted
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        while self._turn.gate is None:
            self.thread.join(0.001)

    def _run(self) -> None:
        try:
            self._turn.take(self._is_wanted)
        except GaveUp:
            self.has_given_up = True
        else:
            self.is_in.set()
            self.may_leave.wait(PATIENCE)
        self._turn.end()

    def end(self) -> None:
        self.may_leave.set()
        self.thread.join(PATIENCE)


def take(line: Line) -> Turn:
    turn = Turn(line)
    turn.take(lambda: True)
    return turn


def test_a_thread_that_comes_back_at_once_goes_before_those_who_wait(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "MOMENT", LONG)
    monkeypatch.setattr(turns, "SPELL", LONG)
    take(line).end()
    turn = take(line)
    other = Waiting(line)

    turn.end()
    again = take(line)

    assert not other.is_in.is_set()
    monkeypatch.setattr(turns, "SPELL", 0.0)
    again.end()
    other.end()


def test_the_others_have_their_turn_however_quickly_one_comes_back(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "MOMENT", LONG)
    monkeypatch.setattr(turns, "SPELL", 0.0)
    take(line).end()
    turn = take(line)
    other = Waiting(line)

    turn.end()

    assert other.is_in.wait(PATIENCE)
    other.end()


def test_a_place_that_is_kept_for_nobody_is_taken(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SPELL", LONG)
    for _ in range(100):
        take(line).end()
    turn = take(line)
    others = [Waiting(line), Waiting(line)]

    turn.end()

    for other in others:
        assert other.is_in.wait(PATIENCE)
        other.end()


def test_who_waits_for_a_kept_place_may_give_up_and_the_next_one_goes(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "MOMENT", LONG)
    monkeypatch.setattr(turns, "SPELL", LONG)
    monkeypatch.setattr(turns, "LOOK", LONG)  # it looks when the place is kept, and not a moment before
    is_wanted = threading.Event()
    is_wanted.set()
    take(line).end()
    turn = take(line)
    first = Waiting(line, is_wanted=is_wanted.is_set)
    second = Waiting(line)

    is_wanted.clear()
    turn.end()

    first.thread.join(PATIENCE)
    assert first.has_given_up
    assert second.is_in.wait(PATIENCE)
    second.end()
