"""failures: errors by their names, the one that happened last first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.find import jobs_of
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.reports import COUNTED, LATEST, TASKS_OF, FailureGroup
from duly.stores.tables.instants import instant

SQL = statements("failures")


class Members(NamedTuple):
    """What is told of the jobs of one error."""

    size: int
    newest: int
    lanes: Sequence[int]
    first_seen: int


def failures(world: World, limit: int) -> Steps[list[FailureGroup]]:
    """One read for each group, and one for the samples."""
    yield from world.book.update(world.moment)
    latest = yield Statement(SQL["latest"], {"latest": LATEST, "limit": limit})
    groups: list[FailureGroup] = []
    for name, last_seen in latest:
        about = {"fingerprint": name, "counted": COUNTED, "newest": TASKS_OF}
        members = Members(*(yield Statement(SQL["group"], about))[0])
        groups += yield from _group(world, name, last_seen, members)
    return groups


def _group(world: World, name: str, last_seen: int, members: Members) -> Steps[list[FailureGroup]]:
    """None, if all that were looked at had been tried again and ended."""
    if not members.size:
        return []
    (sample,) = yield from jobs_of(world, (yield from world.rows([members.newest])))
    tasks = tuple(sorted({world.book.track(lane).task for lane in members.lanes}))
    first_seen = instant(members.first_seen)
    return [FailureGroup(name, members.size, first_seen, instant(last_seen), tasks, sample)]
