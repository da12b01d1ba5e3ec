"""prune: delete what finished long ago."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, NamedTuple

from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.deliver import forget
from duly.stores.postgres.operations.texts import dropping, statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.instants import span

SQL = statements("prune")
DROP_OLD: Final = dropping(SQL["old"])
CHANGE = statements("change")
DIARY = statements("diary")

ABSENCE: Final = timedelta(days=1)
"""How long a worker that died without a word stays on the list, and a lock or a throttle that is over."""
SERIALS: Final = 10
"""Rows to be locked that go for each job that may: they are small, and soon idle."""
OBLIVION: Final = timedelta(days=90)
"""How long ended jobs can say who ran them."""


class Due(NamedTuple):
    """What there is to do."""

    results: bool
    jobs: bool
    windows: bool
    diary: bool
    serials: bool
    deliveries: bool
    tallies: bool
    dead_workers: bool
    old_workers: bool
    locks: bool
    switches: bool


def prune(world: World, limit: int) -> Steps[int]:
    """Results whose time is over, then the oldest jobs with all they left, then what nobody needs."""
    moments = _moments(world)
    (seen,) = yield Statement(SQL["look"], moments)
    due = Due(*seen)
    if due.results:
        yield Statement(SQL["drop_results"], moments)
    dropped = (yield from _drop_jobs(moments, limit)) if due.jobs else 0
    if due.serials:
        yield Statement(SQL["drop_serials"], {"limit": SERIALS * limit})
    if due.deliveries:
        yield from forget(world.now, SERIALS * limit)
    for is_due, text in _small_things(due):
        if is_due:
            yield Statement(text, moments)
    return dropped


def _moments(world: World) -> dict[str, int]:
    return {
        "now": world.now,
        "boot": world.moment.boot,
        "absent": world.now - span(ABSENCE),
        "abandoned": world.moment.boot - span(ABSENCE),
        "forgotten": world.now - span(OBLIVION),
    }


def _drop_jobs(moments: dict[str, int], limit: int) -> Steps[int]:
    yield Statement(CHANGE["clear"], moments | {"limit": limit})
    dropped = yield Statement(DROP_OLD, moments | {"limit": limit})
    return len(dropped)


def _small_things(due: Due) -> tuple[tuple[bool, str], ...]:
    return (
        (due.windows, SQL["drop_windows"]),
        (due.diary, DIARY["forget"]),
        (due.tallies, SQL["fold_tallies"]),
        (due.dead_workers, SQL["hide_workers"]),
        (due.old_workers, SQL["drop_workers"]),
        (due.locks, SQL["drop_locks"]),
        (due.switches, SQL["drop_switches"]),
    )
