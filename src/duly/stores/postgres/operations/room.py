"""What the limits of lanes still allow within a claim.

Limits are derived from what is on loan, so they cannot drift; and one claim at a time counts and lends
under a task's limits, so they are never overrun. A claim that finds another at it does not wait: the task
is left out this time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from duly.stores.contract import Ask, Lane
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.arrays import integers
from duly.stores.postgres.operations.lanes import Track
from duly.stores.postgres.operations.moment import span
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World

SQL = statements("claim")

SOON: Final = 10_000
"""What could not be had for the moment is looked at again after ten milliseconds, not at once."""


class Room:
    """Starts that are left, by task."""

    def __init__(
        self, ask: Ask, now: int, running: Counter[str], starts: dict[str, list[int]], busy: frozenset[str]
    ) -> None:
        self._ask = ask
        self._now = now
        self._free = ask.free
        self._running = running
        self._starts = starts
        self._busy = busy
        self._counted = frozenset(starts) | busy
        self.started: list[str] = []

    @classmethod
    def read(cls, world: World, ask: Ask, moving: Sequence[tuple[int, Track]]) -> Steps[Room]:
        """Lock the limited tasks that have something ready, and count."""
        limited = [number for number, track in moving if _is_limited(ask.lanes[track.task])]
        if not limited:
            return cls(ask, world.now, Counter(), {}, frozenset())
        ready = yield Statement(SQL["ready"], {"lanes": integers(limited), "now": world.now})
        tasks = sorted({world.book.track(number).task for (number,) in ready})
        return (yield from cls._count(world, ask, tasks))

    @classmethod
    def _count(cls, world: World, ask: Ask, tasks: Sequence[str]) -> Steps[Room]:
        if not tasks:
            return cls(ask, world.now, Counter(), {}, frozenset())
        lanes = {task: _lanes_of(world, task) for task in tasks}
        keepers = {min(numbers): task for task, numbers in lanes.items()}
        locked = yield Statement(SQL["lock_tasks"], {"lanes": integers(sorted(keepers))})
        ours = {keepers[number] for (number,) in locked}
        running = yield from _running(world, [number for task in ours for number in lanes[task]])
        starts: dict[str, list[int]] = {}
        for task in sorted(ours):
            starts[task] = yield from _starts(world, ask.lanes[task])
        return cls(ask, world.now, running, starts, frozenset(tasks) - ours)

    def is_limited(self, task: str) -> bool:
        """Whether its loans must be counted."""
        return _is_limited(self._ask.lanes[task])

    def may_lend(self, task: str) -> bool:
        """Not where loans must be counted and were not, because nothing was ready then."""
        return task in self._counted or not self.is_limited(task)

    def left(self, task: str) -> int | None:
        """How many jobs of the task may still start; None is no limit."""
        lane = self._ask.lanes[task]
        if not _is_limited(lane):
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
            self._starts.setdefault(task, []).append(self._now)
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


def _is_limited(lane: Lane) -> bool:
    return lane.concurrency is not None or lane.rate is not None


def _lanes_of(world: World, task: str) -> list[int]:
    """All lanes of a task, served or not: the limit is over all of them."""
    return [number for number, track in world.book.items() if track.task == task]


def _running(world: World, lanes: Sequence[int]) -> Steps[Counter[str]]:
    running: Counter[str] = Counter()
    if lanes:
        for number, amount in (yield Statement(SQL["running"], {"lanes": integers(lanes)})):
            running[world.book.track(number).task] += amount
    return running


def _starts(world: World, lane: Lane) -> Steps[list[int]]:
    """The latest starts within the window of the rate, oldest first, as many as the rate allows."""
    if lane.rate is None:
        return []
    window = {"task": lane.task, "since": world.now - span(lane.rate.per), "starts": lane.rate.starts}
    yield Statement(SQL["forget_starts"], window)
    found = yield Statement(SQL["starts"], window)
    return [at for (at,) in reversed(found)]
