"""What a claim does about jobs that came too late: skip them, parked or not, before lending.

They may stand in another's way.
"""

from __future__ import annotations

from collections.abc import Sequence

from duly.job import State
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations import serials
from duly.stores.postgres.operations.arrays import integers
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World

SQL = statements("expire")


def expire(world: World, lanes: Sequence[int]) -> Steps[None]:
    """Skip what expired in lanes that this worker serves."""
    served = {"lanes": integers(lanes), "now": world.now}
    yield Statement(SQL["skip_free"], served)
    late: dict[int, str] = dict((yield Statement(SQL["late"], served)))
    held = yield from serials.try_lock(late.values())
    for generation in [number for number, serial in late.items() if serial in held]:
        # Read anew: the end of one may promote the next, and it may have gone before we held its serial.
        for row in (yield from world.rows([generation])):
            is_late = row.expires_at is not None and row.expires_at <= world.now
            if row.state is State.WAITING and is_late:
                yield from world.finish(row, "expire", "expired")
    yield Statement(SQL["sweep"], served)
