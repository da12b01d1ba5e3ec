"""failures: errors by their names, the one that happened last first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from duly.job import Job
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.arrays import words
from duly.stores.postgres.operations.find import jobs_of
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.reports import COUNTED, LATEST, TASKS_OF, FailureGroup
from duly.stores.tables.instants import instant

SQL = statements("failures")


class Members(NamedTuple):
    """What is told of the jobs of one error."""

    name: str
    size: int
    newest: int
    lanes: Sequence[int]
    first_seen: int


def failures(world: World, limit: int) -> Steps[list[FailureGroup]]:
    """One read for the names, one for their groups and one for the samples."""
    yield from world.book.update(world.moment)
    latest: dict[str, int] = dict((yield Statement(SQL["latest"], {"latest": LATEST, "limit": limit})))
    about = {"fingerprints": words(list(latest)), "counted": COUNTED, "newest": TASKS_OF}
    groups = [Members(*values) for values in (yield Statement(SQL["groups"], about))]
    groups = [group for group in groups if group.size]  # else all were tried again, and ended
    rows = yield from world.rows(group.newest for group in groups)
    samples = yield from jobs_of(world, rows)
    return [
        _group(world, group, latest[group.name], sample)
        for group, sample in zip(groups, samples, strict=True)
    ]


def _group(world: World, members: Members, last_seen: int, sample: Job) -> FailureGroup:
    tasks = tuple(sorted({world.book.track(lane).task for lane in members.lanes}))
    first_seen = instant(members.first_seen)
    return FailureGroup(members.name, members.size, first_seen, instant(last_seen), tasks, sample)
