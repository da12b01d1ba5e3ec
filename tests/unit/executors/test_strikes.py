"""An interrupt that comes while a body begins or ends, tried at every single step of the pool's own code.

A trace function counts the bytecode instructions around the body and, at the chosen one, has another thread
send the interrupt; it strikes right there. So the race is not waited for, it is walked through.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import FrameType
from typing import Any, cast

import pytest

from duly.errors import LeaseLost
from duly.executors import threads as module
from duly.executors.threads import Threads, Token

Outcome = tuple[Any, BaseException | None]
FILE = module.__file__
STEPS = ("_attempt", "absorb", "enter", "leave", "_take_back")


class Sniper:
    """Traces the steps around one body and interrupts it at the chosen one."""

    def __init__(self, target: int) -> None:
        self._target = target
        self.steps = 0
        self.threads: Threads
        self.token: queue.SimpleQueue[Token] = queue.SimpleQueue()
        self.answers: list[bool] = []

    def __call__(self, frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_filename != FILE or frame.f_code.co_name not in STEPS:
            return None
        frame.f_trace_opcodes = True
        return self._on_step

    def _on_step(self, _frame: FrameType, event: str, _argument: Any) -> Callable[..., Any]:
        if event == "opcode":
            self.steps += 1
            if self.steps == self._target:
                self._shoot()
        return self._on_step

    def _shoot(self) -> None:
        token = self.token.get(timeout=60)
        shot = threading.Thread(target=lambda: self.answers.append(self.threads.interrupt(token, LeaseLost)))
        shot.start()
        shot.join()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FENCE_PATIENCE", 0.001)


@pytest.fixture(autouse=True)
def _untraced() -> Iterator[None]:
    before = threading.gettrace()
    yield
    threading.settrace(cast("Any", before))  # None is fine, whatever the types say


def shoot_at(step: int, body: Callable[[], Any]) -> tuple[Sniper, Outcome, Outcome]:
    """Interrupt the body at that step; returns its outcome and that of the body after it."""
    outcomes: queue.SimpleQueue[Outcome] = queue.SimpleQueue()

    def done(result: Any, failure: BaseException | None) -> None:
        outcomes.put((result, failure))

    sniper = Sniper(step)
    sniper.threads = Threads(1)
    threading.settrace(sniper)
    sniper.token.put(sniper.threads.submit(body, done))
    first = outcomes.get(timeout=60)
    sniper.threads.submit(lambda: sum(range(200)), done)
    second = outcomes.get(timeout=60)
    assert sniper.threads.close(grace=timedelta(minutes=1)) == []
    return sniper, first, second


def until_past_the_end(body: Callable[[], Any]) -> Iterator[tuple[Sniper, Outcome, Outcome]]:
    shoot_at(0, body)  # Python 3.12 traces instructions from the second thread on that asks for it
    for step in itertools.count(1):
        sniper, first, second = shoot_at(step, body)
        if not sniper.answers:
            return
        yield sniper, first, second


def test_a_strike_at_any_step_around_a_body_that_returns_is_its_own_affair() -> None:
    outcomes: set[str] = set()

    for sniper, (result, failure), second in until_past_the_end(lambda: "returned"):
        assert second == (19_900, None)
        assert failure is None or isinstance(failure, LeaseLost)
        assert failure is not None or result == "returned"
        assert failure is None or sniper.answers == [True]
        outcomes.add(type(failure).__name__)

    assert outcomes == {"LeaseLost", "NoneType"}


def test_a_strike_at_any_step_around_a_body_that_fails_is_its_own_affair() -> None:
    def fail() -> None:
        raise ValueError("its own")

    outcomes: set[str] = set()

    for _, (_, failure), second in until_past_the_end(fail):
        assert second == (19_900, None)
        outcomes.add(type(failure).__name__)

    assert outcomes == {"LeaseLost", "ValueError"}
