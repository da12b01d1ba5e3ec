"""workers, leave: who is there. A worker that left holds no lease, so its jobs are lent again."""

from __future__ import annotations

from duly.stores.contract import Attendance
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.cards import card_of
from duly.stores.tables.instants import instant

SQL = statements("workers")


def workers(world: World) -> Steps[list[Attendance]]:
    """Everybody who has not left, with the moment of the last sign of life."""
    found = yield Statement(SQL["list"], world.moment.lease())
    return [Attendance(card_of(*columns), instant(seen_at), lease == 1) for *columns, seen_at, lease in found]


def leave(worker: str) -> Steps[None]:
    """Give the lease back."""
    yield Statement(SQL["leave"], {"worker": worker})
