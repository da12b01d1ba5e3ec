"""The bells that listeners of one process wait at, whoever rings them."""

from __future__ import annotations

import os
import signal
import sys
import threading
from datetime import timedelta

import pytest

from duly.stores.bells import Bell

NOTHING = timedelta(0)


def test_a_ring_is_kept_for_who_waits_next_and_heard_once() -> None:
    bell = Bell()
    bell.wake()
    bell.wake()

    assert [bell.wait(NOTHING) for _ in range(2)] == [True, False]


def test_a_moment_that_has_passed_is_not_waited_for() -> None:
    bell = Bell()
    is_heard = bell.wait(timedelta(seconds=-1))

    bell.wake()

    assert [is_heard, bell.wait(timedelta(seconds=-1))] == [False, True]


def test_closing_lets_whoever_waits_go() -> None:
    bell = Bell()

    bell.close()

    assert bell.wait(timedelta(minutes=1))


def test_who_closes_a_bell_leaves_the_list_of_those_that_ring() -> None:
    left = list[Bell]()
    bell = Bell(left.append)

    bell.close()

    assert left == [bell]


def test_a_ring_that_comes_after_a_wait_gave_up_is_kept_for_the_next() -> None:
    bell = Bell()
    has_rung = bell.wait(NOTHING)

    bell.wake()

    assert [has_rung, bell.wait(NOTHING), bell.wait(NOTHING)] == [False, True, False]


def test_many_may_ring_at_once_and_who_waits_is_let_go() -> None:
    bell = Bell()

    def ring() -> None:
        for _ in range(1000):
            bell.wake()

    ringers = [threading.Thread(target=ring) for _ in range(4)]

    for ringer in ringers:
        ringer.start()

    assert bell.wait(timedelta(minutes=1))
    for ringer in ringers:
        ringer.join()


@pytest.mark.skipif(sys.platform == "win32", reason="no signal interrupts a wait there")
def test_a_signal_may_ring_for_the_thread_that_it_interrupts() -> None:
    bell = Bell()
    before = signal.signal(signal.SIGUSR1, lambda _number, _frame: bell.wake())
    sender = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1))

    sender.start()
    has_rung = bell.wait(timedelta(minutes=1))

    sender.join()
    signal.signal(signal.SIGUSR1, before)
    assert has_rung
