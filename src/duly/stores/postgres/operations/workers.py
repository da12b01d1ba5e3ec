"""workers, leave: who is there. A worker that left holds no lease, so its jobs are lent again."""

from __future__ import annotations

from duly.stores.contract import Attendance
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.cards import card_of
from duly.stores.tables.instants import instant

SQL = statements("workers")


def workers(world: World) -> Steps[list[Attendance]]:
    """Everybody who has not left."""
    found = yield Statement(SQL["list"], {"boot": world.moment.boot})
    return [
        Attendance(card_of(*columns), instant(seen_at), has_lease) for *columns, seen_at, has_lease in found
    ]


def leave(worker: str) -> Steps[None]:
    """Give the lease back. The row stays, because ended jobs name their worker by its number."""
    yield Statement(SQL["leave"], {"worker": worker})
