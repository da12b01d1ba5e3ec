"""Hundreds of seeded storms in virtual time: the workers' own code, every law watched at every step.

`python -m tests.simulation --seeds 5000` plays more of them; `--seed N` plays one again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest
from tests.simulation import play
from tests.simulation.witness import Violation

from duly.errors import IllegalMove
from duly.stores.memory import renew, settle, world
from duly.worker import beat

SEEDS: Final = int(os.environ.get("DULY_SEEDS", "160"))
SHARE: Final = 20
"""Seeds of one test, so that several processes share the work."""


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_no_storm_breaks_a_law(first: int) -> None:
    played = perform_all(range(first, first + SHARE))

    assert all(one.runs > 20 for one in played), "a play in which nothing happens shows nothing"
    assert sum(one.takeovers for one in played) > SHARE
    assert sum(one.refused for one in played) > 0


def test_a_seed_always_plays_the_same() -> None:
    assert play.perform(7) == play.perform(7)


def always(answer: Any) -> Callable[..., Any]:
    return lambda *args, **words: answer


def whatever_it_shows(row: object, fence: object) -> bool:
    return row is not None


SABOTAGE: Final[dict[str, tuple[object, str, Callable[..., Any]]]] = {
    "a settle that compares nothing": (settle, "fence_holds", whatever_it_shows),
    "a start that compares nothing": (renew, "fence_holds", whatever_it_shows),
    "leases that do not hold": (world.World, "has_lease", always(False)),
    "leases that never end": (world.World, "has_lease", always(True)),
    "a worker that trusts its lease for ever": (beat, "trusted", always(1e9)),
}


RARE: Final = {"a start that compares nothing": range(3180, 3230)}
"""A rare coincidence needs seeds of its own; 60 are plenty for the others."""


@pytest.mark.parametrize("fault", SABOTAGE)
def test_a_broken_engine_is_found_out(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*SABOTAGE[fault])
    monkeypatch.setattr(play, "LONGEST", 150.0)  # a play that would never end need not last ten minutes

    with pytest.raises((Violation, IllegalMove, TimeoutError)):
        perform_all(RARE.get(fault, range(60)))


def perform_all(seeds: Iterable[int]) -> list[play.Played]:
    return [play.perform(seed) for seed in seeds]
