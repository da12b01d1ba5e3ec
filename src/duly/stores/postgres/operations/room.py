"""What the limits of lanes still allow within a claim.

Limits are derived from what is on loan, so they cannot drift; and one claim at a time counts and lends
under a task's limits, so they are never overrun. A claim that finds another at it does not wait: the task
is left out this time.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from duly.stores.contract import Ask, Lane
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.arrays import integers
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.instants import span

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
    def read(cls, world: World, ask: Ask, ready: Sequence[int], loads: Mapping[int, int]) -> Steps[Room]:
        """Lock the limited tasks with something ready in these lanes, and count what is on loan now.

        Where the loads seen before say that a task is full, that is enough: nothing is lent from it.
        """
        tasks = {world.book.track(number).task for number in ready}
        seen = _by_task(world, loads)
        full = {task for task in tasks if _is_full(ask.lanes[task], seen[task])}
        busy: set[str] = set()
        starts: dict[str, list[int]] = {task: [] for task in full}
        if tasks - full:
            ours = yield from _lock(world, tasks - full)
            busy = tasks - full - ours
            counted = yield from _running(world, ours)
            seen = Counter({**seen, **counted})
            for task in sorted(ours):
                starts[task] = yield from _starts(world, ask.lanes[task])
        return cls(ask, world.now, seen, starts, frozenset(busy))

    def is_limited(self, task: str) -> bool:
        """Whether its loans must be counted."""
        return is_limited(self._ask.lanes[task])

    def may_lend(self, task: str) -> bool:
        """Not where loans must be counted and were not, because nothing was ready then."""
        return task in self._counted or not self.is_limited(task)

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


def _is_full(lane: Lane, running: int) -> bool:
    """Where a rate counts too, its starts must be looked at all the same."""
    return lane.rate is None and lane.concurrency is not None and running >= lane.concurrency


def _by_task(world: World, loads: Mapping[int, int]) -> Counter[str]:
    running: Counter[str] = Counter()
    for number, amount in loads.items():
        running[world.book.track(number).task] += amount
    return running


def _lanes_of(world: World, tasks: Collection[str]) -> list[int]:
    """All lanes of some tasks, served or not: a limit is over all of them."""
    return [number for number, track in world.book.items() if track.task in tasks]


def _lock(world: World, tasks: Collection[str]) -> Steps[set[str]]:
    """The oldest lane of a task stands for it; answers the tasks that nobody else is lending from."""
    keepers = {min(_lanes_of(world, [task])): task for task in tasks}
    locked = yield Statement(SQL["lock_tasks"], {"lanes": integers(sorted(keepers))})
    return {keepers[number] for (number,) in locked}


def _running(world: World, tasks: Collection[str]) -> Steps[Counter[str]]:
    """Counted anew once the task is ours."""
    found = yield Statement(SQL["running"], {"lanes": integers(_lanes_of(world, tasks))})
    return Counter({**dict.fromkeys(tasks, 0), **_by_task(world, dict(found))})


def _starts(world: World, lane: Lane) -> Steps[list[int]]:
    """The latest starts within the window of the rate, oldest first, as many as the rate allows."""
    if lane.rate is None:
        return []
    window = {"task": lane.task, "since": world.now - span(lane.rate.per), "starts": lane.rate.starts}
    yield Statement(SQL["forget_starts"], window)
    found = yield Statement(SQL["starts"], window)
    return [at for (at,) in reversed(found)]
