"""The doorbell of stores that only their own process can see."""

from __future__ import annotations

from datetime import timedelta

from duly.stores.bells import Bell

NOTHING = timedelta(0)


def test_a_ring_is_kept_for_who_waits_next_and_heard_once() -> None:
    bell = Bell()
    bell.wake()
    bell.wake()

    assert [bell.wait(NOTHING) for _ in range(2)] == [True, False]


def test_closing_lets_whoever_waits_go() -> None:
    bell = Bell()

    bell.close()

    assert bell.wait(timedelta(minutes=1))
