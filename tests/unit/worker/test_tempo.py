"""The pace of a worker: soon known, and soon forgotten."""

from __future__ import annotations

import pytest

from duly.worker.tempo import MOST_BUFFERED, Tempo

SLOTS = 20
STEP = 0.01


def after_a_burst() -> Tempo:
    """Thirty milliseconds at 40,000 runs a second."""
    tempo = Tempo()
    for step in (1, 2, 3):
        tempo.note(400, step * STEP)
    return tempo


def test_a_worker_that_has_run_nothing_holds_nothing() -> None:
    assert Tempo().buffer(SLOTS) == 0


def test_the_pace_of_a_burst_is_known_while_it_lasts() -> None:
    assert after_a_burst().buffer(SLOTS) == MOST_BUFFERED


def test_the_pace_is_forgotten_when_runs_become_slow() -> None:
    tempo = after_a_burst()

    for step in range(4, 204):
        tempo.note(0, step * STEP)

    assert tempo.buffer(SLOTS) == 0


@pytest.mark.parametrize("seconds", [0.6, 1.0, 5.0])
def test_slow_runs_wait_in_the_store(seconds: float) -> None:
    tempo = Tempo()

    tempo.note(SLOTS, seconds)

    assert tempo.buffer(SLOTS) == 0
