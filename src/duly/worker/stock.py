"""The stock: claims that wait unstarted, so that slots never do; and how long ends may wait because of it.

A turn at the store has its price. While enough is left to run, an end waits a moment for others to go with.
"""

from __future__ import annotations

import time
from typing import Final

from duly.worker.bench import Bench
from duly.worker.tempo import LARGEST_BATCH, Tempo

LINGER: Final = 0.02
"""Seconds for which an end may wait for company."""


class Stock:
    """How many unstarted claims are worth holding now, beside how many there are."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._tempo = Tempo(since=time.monotonic())
        self._wanted = 0
        self.lasts_until = 0.0
        """When to go to the store at the latest, for the sake of the first end that waits."""

    def note(self, ended: int, now: float, *, is_first: bool) -> None:
        """So many runs have ended; none waited before if they are the first."""
        self._tempo.note(ended, now)
        self._wanted = self._tempo.buffer(self._bench.slots)
        if is_first:
            self.lasts_until = now + LINGER

    @property
    def low(self) -> int:
        """With so few left it is time to go for more."""
        return self._wanted // 2

    @property
    def is_ample(self) -> bool:
        """More than half of what is wanted is there."""
        return self._bench.buffered * 2 > self._wanted

    @property
    def room(self) -> int:
        """How many claims to ask for: what could start at once, and what the stock lacks."""
        room = self._bench.free + self._wanted - self._bench.buffered
        return max(0, min(LARGEST_BATCH, room))
