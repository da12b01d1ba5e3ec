"""The clock for tests: time passes when told to, and the wall may be set without any time passing."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from duly.errors import DefinitionError
from duly.testing import VirtualClock

HOUR = timedelta(hours=1)


def test_time_stands_still_until_it_is_moved() -> None:
    clock = VirtualClock()

    assert clock.now() == clock.now()
    assert clock.boot() == clock.boot()


def test_two_clocks_start_at_the_same_aware_instant() -> None:
    assert VirtualClock().now() == VirtualClock().now()
    assert VirtualClock().now().tzinfo is UTC


def test_a_clock_can_start_at_another_instant() -> None:
    start = datetime(2026, 10, 25, 0, 59, tzinfo=UTC)

    assert VirtualClock(start).now() == start


@pytest.mark.parametrize("span", ["1h", 3600, HOUR], ids=str)
def test_advancing_lets_wall_and_boot_time_pass_alike(span: str | int | timedelta) -> None:
    clock = VirtualClock()
    wall, boot = clock.now(), clock.boot()

    assert clock.advance(span) == clock.now() == wall + HOUR
    assert clock.boot() == boot + 3600


def test_time_does_not_go_back() -> None:
    with pytest.raises(DefinitionError, match="negative"):
        VirtualClock().advance(-HOUR)


@pytest.mark.parametrize("by", [HOUR, -HOUR], ids=str)
def test_setting_the_wall_clock_lets_no_time_pass(by: timedelta) -> None:
    clock = VirtualClock()
    wall, boot = clock.now(), clock.boot()

    assert clock.step_wall(by) == clock.now() == wall + by
    assert clock.boot() == boot


def test_threads_may_move_one_clock_together() -> None:
    clock = VirtualClock()
    start = clock.now()
    movers = [threading.Thread(target=lambda: [clock.advance(0.001) for _ in range(500)]) for _ in range(4)]

    for mover in movers:
        mover.start()
    for mover in movers:
        mover.join()

    assert clock.now() - start == timedelta(seconds=2)
