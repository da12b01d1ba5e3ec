"""What the nemesis will do, made from a seed before the run: pure, so that a seed is a plan.

Faults overlap on purpose: systems survive them one at a time.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Step:
    """One fault."""

    at: float
    """Seconds since the faults began."""
    kind: str
    slot: int
    """Which worker it is aimed at, where it is aimed at one."""
    seconds: float
    strength: float

    def words(self) -> dict[str, Any]:
        """As the history tells it."""
        return {
            "when": self.at,
            "what": self.kind,
            "slot": self.slot,
            "seconds": self.seconds,
            "strength": self.strength,
        }


@dataclass(frozen=True, slots=True)
class Kind:
    """How often a fault is chosen, and how long it lasts."""

    weight: float
    shortest: float = 0.0
    longest: float = 0.0


WORKERS: Final = {
    "freeze": Kind(3, 0.2, 1.3),
    "freeze_long": Kind(2, 2.5, 4.5),
    "freeze_tree": Kind(1.5, 1.0, 4.0),
    "terminate": Kind(3),
    "kill_child": Kind(3),
    "kill_producer": Kind(1),
    "step_clock": Kind(2, 0.5, 4.0),
}
ROAD: Final = {
    "delay": Kind(1.5, 0.5, 2.0),
    "stall": Kind(1, 0.3, 3.5),
    "partition": Kind(6, 2.5, 6.0),
    "cut": Kind(2),
    "half_close": Kind(1),
    "lose_answers": Kind(2),
    "refuse": Kind(1, 0.2, 1.5),
}
KINDS: Final[dict[str, dict[str, Kind]]] = {
    "sqlite": {**WORKERS, "fill_disk": Kind(2, 0.5, 2.5)},
    "postgres": {**WORKERS, **ROAD, "restart": Kind(2, 0.0, 1.5), "end_sessions": Kind(2)},
    "redis": {
        **WORKERS,
        **ROAD,
        "restart": Kind(2, 0.0, 1.5),
        "end_sessions": Kind(2),
        "forget_scripts": Kind(1),
        "pause_server": Kind(1, 0.3, 2.0),
    },
}
EVERY: Final = 1.6
"""Seconds between two further faults, on average."""


def make_plan(
    seed: int, store: str, seconds: float, *, workers: int, kill_every: float, without: frozenset[str]
) -> list[Step]:
    """A kill at every `kill_every`, and other faults between and over them."""
    rng = random.Random(f"plan {seed} {store}")
    # In turn, since whoever is killed at random dies before it has done anything; and one is spared, to show
    # what becomes of a worker that lives through outages and is told to stop.
    times = [(number + rng.uniform(0, 0.5)) * kill_every for number in range(int(seconds / kill_every))]
    mortal = max(1, workers - 1)
    kills = [Step(round(at, 3), "kill", number % mortal, 0, 0) for number, at in enumerate(times)]
    kinds = {name: kind for name, kind in KINDS[store].items() if name not in without}
    return sorted([*kills, *_others(rng, kinds, seconds, workers)], key=lambda step: step.at)


def _others(rng: random.Random, kinds: dict[str, Kind], seconds: float, workers: int) -> list[Step]:
    steps: list[Step] = []
    at = rng.expovariate(1 / EVERY)
    while at < seconds:
        name = rng.choices(list(kinds), [kind.weight for kind in kinds.values()])[0]
        lasts = round(min(rng.uniform(kinds[name].shortest, kinds[name].longest), seconds - at), 3)
        steps.append(Step(round(at, 3), name, rng.randrange(workers), lasts, round(rng.random(), 3)))
        at += rng.expovariate(1 / EVERY)
    return steps
