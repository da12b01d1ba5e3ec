"""prune: delete what finished long ago."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

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


def prune(world: World, limit: int) -> Steps[int]:
    """Results whose time is over, then the oldest jobs with all they left, then what nobody needs."""
    yield Statement(SQL["drop_results"], {"now": world.now})
    yield Statement(CHANGE["clear"], {"now": world.now, "limit": limit})
    dropped = yield Statement(DROP_OLD, {"now": world.now, "limit": limit})
    yield Statement(SQL["drop_windows"], {"now": world.now})
    yield Statement(DIARY["forget"], {"now": world.now})
    yield Statement(SQL["drop_serials"], {"limit": SERIALS * limit})
    yield from forget(world.now, SERIALS * limit)
    yield Statement(SQL["fold_tallies"])
    yield from _forget_workers(world)
    yield Statement(SQL["drop_locks"], {"boot": world.moment.boot - span(ABSENCE)})
    yield Statement(SQL["drop_switches"], {"since": world.now - span(ABSENCE)})
    return len(dropped)


def _forget_workers(world: World) -> Steps[None]:
    absent = {"boot": world.moment.boot, "since": world.now - span(ABSENCE)}
    yield Statement(SQL["hide_workers"], absent)
    yield Statement(SQL["drop_workers"], {"since": world.now - span(OBLIVION)})
