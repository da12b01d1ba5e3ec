"""What the limits of lanes still allow within a claim.

Limits are derived from what is on loan, so they cannot drift; and one claim at a time counts and lends
under a task's limits, so they are never overrun. A claim that finds another at it does not wait: the task
is left out this time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from duly.stores.contract import Ask, Lane
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.again import Repeat
from duly.stores.postgres.operations.arrays import integers
from duly.stores.postgres.operations.loads import Loads
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables import room
from duly.stores.tables.room import starts_of

SQL = statements("claim")
COUNT: Final = f"{SQL['loads']}\n{SQL['last_loan']}"


class Room(room.Room):
    """Starts that are left, by task."""

    def __init__(
        self, ask: Ask, now: int, running: Counter[str], starts: dict[str, list[int]], busy: frozenset[str]
    ) -> None:
        super().__init__(ask, now, running, starts, busy)
        self._counted = frozenset(starts) | busy

    @classmethod
    def read(
        cls, world: World, ask: Ask, ready: Sequence[int], seen_by_lane: Mapping[int, int], loads: Loads
    ) -> Steps[Room]:
        """Lock the limited tasks with something ready in these lanes, and count what is on loan now.

        Where the loads seen before say that a task is full, that is enough: nothing is lent from it.
        """
        tasks = {world.book.track(number).task for number in ready}
        seen = _by_task(world, seen_by_lane)
        full = {task for task in tasks if _is_full(ask.lanes[task], seen[task])}
        busy: set[str] = set()
        starts: dict[str, list[int]] = {task: [] for task in full}
        if tasks - full:
            ours = yield from _lock(world, tasks - full)
            busy = tasks - full - ours
            counted = yield from _running(world, loads, ours)
            seen = Counter({**seen, **counted})
            for task in sorted(ours):
                starts[task] = yield from starts_of(ask.lanes[task], world.now, SQL)
        return cls(ask, world.now, seen, starts, frozenset(busy))

    def may_lend(self, task: str) -> bool:
        """Not where loans must be counted and were not, because nothing was ready then."""
        return task in self._counted or not self.is_limited(task)


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


def _running(world: World, loads: Loads, tasks: Collection[str]) -> Steps[Counter[str]]:
    """Counted anew once the task is ours."""
    count = loads.asked(_lanes_of(world, tasks), world.now)
    found = yield Statement(COUNT, count.parameters)
    if any(lane is None and newest > world.moment.newest_lane for lane, newest, _ in found):
        raise Repeat("a lane is new, and something may be on loan from it")
    return Counter({**dict.fromkeys(tasks, 0), **_by_task(world, loads.learn(count, found))})
