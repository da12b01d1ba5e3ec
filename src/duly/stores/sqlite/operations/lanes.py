"""Which lanes move: served by this worker, not held by a switch, and with room under their limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from duly.stores.contract import Ask, Lane, Scope
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.room import Room, starts_of

SQL = statements("claim")

FOREVER: Final = 2**63 - 1
"""How long a switch holds that names no time."""


class Track(NamedTuple):
    """Jobs of one queue, task and priority: within it they are lent in the order they became ready."""

    queue: str
    task: str
    rank: int
    first_ready_at: int


def serves(ask: Ask, task: str, queue: str) -> bool:
    """Whether this worker may take jobs of that task from that queue."""
    lane = ask.lanes.get(task)
    return lane is not None and (ask.queues is None or queue in ask.queues or lane.on_any_queue)


class Holds:
    """The switches in force."""

    def __init__(self, switches: Mapping[tuple[str, str], int | None]) -> None:
        self._switches = switches

    @classmethod
    def read(cls, world: World) -> Steps[Holds]:
        found = yield Statement(SQL["switches"], {"now": world.now})
        return cls({(scope, name): until for scope, name, until in found})

    def on(self, lane: Lane, queue: str) -> int | None:
        """None when the lane moves; else until when it is held."""
        if not self._switches:
            return None
        names = [(Scope.QUEUE, queue), *((Scope.TASK, task) for task in (lane.task, *lane.held_by))]
        for name in names:
            if name in self._switches:
                until = self._switches[name]
                return FOREVER if until is None else until
        return None


def read_room(world: World, ask: Ask, tasks: set[str], workers: Sequence[str]) -> Steps[Room]:
    """Limits are derived from what these workers have on loan, so they cannot drift."""
    lanes = [ask.lanes[task] for task in sorted(tasks)]
    limited = [lane.task for lane in lanes if lane.concurrency is not None]
    running = yield from _running(workers, limited)
    starts: dict[str, list[int]] = {}
    for lane in lanes:
        starts[lane.task] = yield from starts_of(lane, world.now, SQL)
    return Room(ask, world.now, running, starts)


def _running(workers: Sequence[str], tasks: Sequence[str]) -> Steps[Counter[str]]:
    if not tasks:
        return Counter()
    found = yield Statement(SQL["running"], {"workers": pack(workers), "tasks": pack(tasks)})
    return Counter(dict(found))
