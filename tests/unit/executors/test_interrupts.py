"""Where a wish is raised in the main thread, and where it is not."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from duly.errors import LeaseLost, SoftLimitExceeded
from duly.executors.interrupts import SIGNAL, Interrupts

Ask = Callable[[int], None]


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    before = signal.getsignal(SIGNAL)
    made = Interrupts()
    made.install()
    yield made
    signal.signal(SIGNAL, before)


@pytest.fixture
def ask(interrupts: Interrupts) -> Ask:
    """Has another thread ask for an exception in an errand, and waits until it has asked."""

    def ask_from_a_thread(number: int) -> None:
        asking = threading.Thread(target=interrupts.request, args=(number, SoftLimitExceeded))
        asking.start()
        asking.join()

    return ask_from_a_thread


def test_a_wish_is_raised_in_the_body_of_its_errand(interrupts: Interrupts, ask: Ask) -> None:
    interrupts.begin(7)

    with pytest.raises(SoftLimitExceeded):
        interrupts.call(lambda: ask(7))


@pytest.mark.parametrize("another", [6, 8])
def test_a_wish_for_another_errand_is_void(interrupts: Interrupts, ask: Ask, another: int) -> None:
    interrupts.begin(7)

    interrupts.call(lambda: ask(another))


def test_a_wish_that_comes_before_the_body_is_raised_as_the_body_begins(
    interrupts: Interrupts, ask: Ask
) -> None:
    begun: list[str] = []
    interrupts.begin(7)

    ask(7)

    with pytest.raises(SoftLimitExceeded):
        interrupts.call(lambda: begun.append("begun"))
    assert begun == []


def test_a_wish_that_comes_after_the_body_is_raised_nowhere(interrupts: Interrupts, ask: Ask) -> None:
    interrupts.begin(7)
    interrupts.call(lambda: None)

    ask(7)
    interrupts.begin(8)

    assert interrupts.call(lambda: "undisturbed") == "undisturbed"


def test_a_wish_waits_for_the_end_of_what_is_shielded(interrupts: Interrupts, ask: Ask) -> None:
    written: list[str] = []

    def write() -> None:
        ask(7)
        written.append("whole")

    interrupts.begin(7)

    with pytest.raises(SoftLimitExceeded):
        interrupts.call(lambda: interrupts.shielded(write))
    assert written == ["whole"]


def test_a_body_hears_of_its_limit_and_of_its_lost_lease(interrupts: Interrupts, ask: Ask) -> None:
    heard: list[str] = []

    def body() -> None:
        try:
            ask(7)
        except SoftLimitExceeded:
            heard.append("limit")
        try:
            threading.Thread(target=interrupts.request, args=(7, LeaseLost)).start()
            threading.Event().wait(60)
        except LeaseLost:
            heard.append("lease")

    interrupts.begin(7)
    interrupts.call(body)

    assert heard == ["limit", "lease"]
