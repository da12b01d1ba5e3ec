"""How many jobs of each task may still start within one claim."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from duly.stores.contract import Ask, Lane
from duly.stores.drive import Statement, Steps
from duly.stores.tables.instants import span

SOON: Final = 10_000
"""What could not be had for the moment is looked at again after ten milliseconds, not at once."""


class Room:
    """What the lanes' limits still allow."""

    def __init__(
        self,
        ask: Ask,
        now: int,
        running: Counter[str],
        starts: dict[str, list[int]],
        busy: Collection[str] = (),
    ) -> None:
        self._ask = ask
        self._now = now
        self._free = ask.free
        self._running = running
        self._starts = starts
        self._busy = busy
        """Tasks that somebody else is lending from at this moment."""
        self.started: list[str] = []

    def is_limited(self, task: str) -> bool:
        """Whether its loans must be counted."""
        return is_limited(self._ask.lanes[task])

    def left(self, task: str) -> int | None:
        """How many jobs of the task may still start; None is no limit."""
        lane = self._ask.lanes[task]
        if not is_limited(lane):
            return None
        if task in self._busy:
            return 0
        left = self._free
        if lane.concurrency is not None:
            left = min(left, lane.concurrency - self._running[task])
        if lane.rate is not None:
            left = min(left, lane.rate.starts - len(self._starts.get(task, ())))
        return max(left, 0)

    def take(self, task: str) -> bool:
        """Use up one start, if there is one."""
        left = self.left(task)
        if left is None:
            return True
        if left == 0:
            return False
        self._free -= 1
        self._running[task] += 1
        if self._ask.lanes[task].rate is not None:
            # The order is of time: an earlier start is a later one if the clock was set back between them.
            insort(self._starts.setdefault(task, []), self._now)
            self.started.append(task)
        return True

    def opens_at(self, task: str) -> int | None:
        """None when the task may start now, as far as time has to do with it; else the moment it may."""
        if task in self._busy:
            return self._now + SOON
        rate = self._ask.lanes[task].rate
        starts = self._starts.get(task, ())
        if rate is None or len(starts) < rate.starts:
            return None
        return starts[-rate.starts] + span(rate.per)


def is_limited(lane: Lane) -> bool:
    """Whether loans of its task must be counted."""
    return lane.concurrency is not None or lane.rate is not None


def starts_of(lane: Lane, now: int, sql: Mapping[str, str]) -> Steps[list[int]]:
    """The latest starts within the window of the rate, oldest first, as many as the rate allows."""
    if lane.rate is None:
        return []
    window = {"task": lane.task, "since": now - span(lane.rate.per), "starts": lane.rate.starts}
    yield Statement(sql["forget_starts"], window)
    found = yield Statement(sql["starts"], window)
    return [at for (at,) in reversed(found)]
