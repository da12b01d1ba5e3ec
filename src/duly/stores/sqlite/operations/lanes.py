"""Which lanes a claim may take from: served by this worker, and with room under their limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from duly.stores.contract import Ask
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.room import Room, starts_of

SQL = statements("claim")


def serves(ask: Ask, task: str, queue: str) -> bool:
    """Whether this worker may take jobs of that task from that queue."""
    lane = ask.lanes.get(task)
    return lane is not None and (ask.queues is None or queue in ask.queues or lane.on_any_queue)


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
