"""What a seed has in store: cuts, outages, lost requests and answers, kills, freezes and orderly stops.

The whole plan is drawn before the play, so that it can be read; overlaps are the normal case.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from tests.simulation.stage import Process

STORM: Final = 60.0
"""Virtual seconds during which things go wrong; then everything is mended."""


class Fate(StrEnum):
    """What becomes of one call."""

    FINE = "fine"
    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"


class Blow(StrEnum):
    """What happens to a worker's process."""

    KILL = "kill"
    FREEZE = "freeze"
    STOP = "stop"


class Strike(NamedTuple):
    """A blow at a time; for a freeze, how long; else, how long until a new process takes its place."""

    at: float
    blow: Blow
    slot: int
    seconds: float


class Trouble(NamedTuple):
    """A span in which calls of some processes get lost."""

    start: float
    end: float
    slot: int | None
    """None for everybody: the store itself is away."""
    requests: float
    answers: float

    def concerns(self, process: Process, now: float) -> bool:
        """Whether a call of this process falls under it."""
        is_hit = self.slot is None or process.name.startswith(f"worker-{self.slot}.")
        return is_hit and self.start <= now < self.end


@dataclass(slots=True)
class Weather:
    """Everything that goes wrong in one play."""

    dice: random.Random
    slots: int
    troubles: list[Trouble] = field(default_factory=list[Trouble])
    strikes: list[Strike] = field(default_factory=list[Strike])
    lost: int = 0

    def __post_init__(self) -> None:
        self.troubles = [self._trouble() for _ in range(self.dice.randint(2, 6))]
        self.strikes = sorted(self._strike() for _ in range(self.dice.randint(4, 14)))

    def _trouble(self) -> Trouble:
        start = self.dice.uniform(0, STORM * 0.9)
        slot = self.dice.choice([None, *range(self.slots)])
        kind = self.dice.random()
        if kind < 0.4:  # cut off
            return Trouble(start, min(STORM, start + self.dice.uniform(0.5, 9)), slot, 1.0, 0.0)
        lossy = self.dice.uniform(0.05, 0.5)
        return Trouble(
            start,
            min(STORM, start + self.dice.uniform(2, 20)),
            slot,
            lossy * self.dice.random(),
            lossy * self.dice.random(),
        )

    def _strike(self) -> Strike:
        blow = self.dice.choice(list(Blow))
        longest = 15.0 if blow is Blow.FREEZE else 4.0
        return Strike(
            self.dice.uniform(1, STORM),
            blow,
            self.dice.randrange(self.slots),
            self.dice.uniform(0.1, longest),
        )

    def fate(self, process: Process, now: float) -> Fate:
        """Drawn for every call."""
        for trouble in self.troubles:
            if trouble.concerns(process, now):
                drawn = self.dice.random()
                if drawn < trouble.requests:
                    self.lost += 1
                    return Fate.REQUEST_LOST
                if drawn < trouble.requests + trouble.answers:
                    self.lost += 1
                    return Fate.ANSWER_LOST
        return Fate.FINE

    def latency(self) -> float:
        """One way, in seconds: mostly nothing to speak of, sometimes long."""
        return self.dice.expovariate(500) if self.dice.random() < 0.95 else self.dice.uniform(0.01, 0.8)

    def patience(self) -> float:
        """How long a caller waits for an answer that does not come."""
        return self.dice.uniform(0.0, 1.5)
