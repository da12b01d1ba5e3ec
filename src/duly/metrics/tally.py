"""What happened in this process, counted: a listener that costs a few dictionary look-ups per run.

Names become labels, and every value of a label is kept for ever by whoever stores it. So there is room for a
fixed number of them; what comes later is counted together.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from duly.events import Event
from duly.metrics.catalogue import BOUNDS

OTHER: Final = "(other)"
LANES: Final = 300
"""Pairs of task and queue that are counted apart."""
TASKS: Final = 100
"""Tasks whose times are kept apart."""

N = TypeVar("N", bound=Hashable)


class Room(Generic[N]):
    """Room for so many names, first come, first served; the others share one."""

    def __init__(self, size: int, other: N) -> None:
        self._size = size
        self._other = other
        self._known: set[N] = set()

    def place(self, name: N) -> N:
        """The name itself, or the one for all others."""
        if name in self._known:
            return name
        if len(self._known) >= self._size:
            return self._other
        self._known.add(name)
        return name


def lanes() -> Room[tuple[str, str]]:
    """Room for pairs of task and queue."""
    return Room(LANES, (OTHER, OTHER))


class Times:
    """How long things took: how many in each bucket, and the sum."""

    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds


class Tally:
    """Runs by task, queue and outcome, and how long they took and waited. Subscribe it to `app.events`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # two workers in one process have two threads
        self._lanes = lanes()
        self._tasks = Room(TASKS, OTHER)
        self.runs: Counter[tuple[str, str, str]] = Counter()
        self.durations: dict[str, Times] = {}
        self.waits: dict[str, Times] = {}

    def __call__(self, event: Event) -> None:
        """A run has ended; what was handed back unstarted is none."""
        if event.seconds is None:
            return
        with self._lock:
            self.runs[*self._lanes.place((event.task, event.queue)), event.kind] += 1
            task = self._tasks.place(event.task)
            _times(self.durations, task).add(event.seconds)
            if event.wait is not None:
                _times(self.waits, task).add(event.wait)


def _times(kept: dict[str, Times], task: str) -> Times:
    found = kept.get(task)
    if found is None:
        found = kept[task] = Times()
    return found
