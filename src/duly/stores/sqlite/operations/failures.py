"""failures: errors by their names, the one that happened last first."""

from __future__ import annotations

from duly.stores.contract import Page, Selection
from duly.stores.drive import Statement, Steps
from duly.stores.reports import COUNTED, LATEST, TASKS_OF, FailureGroup
from duly.stores.sqlite.operations.find import find
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.instants import instant

SQL = statements("failures")


def failures(world: World, limit: int) -> Steps[list[FailureGroup]]:
    """A few short reads for each group."""
    latest = yield Statement(SQL["latest"], {"latest": LATEST, "limit": limit})
    groups: list[FailureGroup] = []
    for name, last_seen in latest:
        groups.append((yield from _group(world, name, last_seen)))
    return groups


def _group(world: World, name: str, last_seen: int) -> Steps[FailureGroup]:
    about = {"fingerprint": name, "counted": COUNTED, "newest": TASKS_OF}
    ((count,),) = yield Statement(SQL["counted"], about)
    ((first_seen,),) = yield Statement(SQL["oldest"], about)
    tasks = yield Statement(SQL["tasks"], about)
    (sample,) = yield from find(world, Selection(fingerprint=name), Page(limit=1))
    named = tuple(task for (task,) in tasks)
    return FailureGroup(name, count, instant(first_seen), instant(last_seen), named, sample)
