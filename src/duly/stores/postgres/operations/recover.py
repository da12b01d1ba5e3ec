"""What a claim does first about workers whose lease ran out: take back what they held."""

from __future__ import annotations

from collections.abc import Mapping

from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations import serials
from duly.stores.postgres.operations.arrays import integers
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.recovery import recover_row

SQL = statements("recover")


def recover(world: World, worker: int) -> Steps[bool]:
    """Jobs of dead workers become ready, or end as they must; what is held by somebody is left for later.

    Answers whether there were dead workers.
    """
    dead: dict[int, str] = dict((yield Statement(SQL["dead"], {"worker": worker, "boot": world.moment.boot})))
    if not dead:
        return False
    workers = integers(dead)
    yield Statement(SQL["take_back"], {"workers": workers, "now": world.now})
    borrowed = yield Statement(SQL["borrowed"], {"workers": workers})
    yield from _take_back_singly(world, dict(borrowed), dead)
    yield Statement(SQL["clear"], {"workers": workers})
    return True


def _take_back_singly(
    world: World, borrowed: Mapping[int, str | None], hosts: Mapping[int, str]
) -> Steps[None]:
    """Jobs with a serial, and those of which something was said."""
    held = yield from serials.try_lock(serial for serial in borrowed.values() if serial is not None)
    free = [generation for generation, serial in borrowed.items() if serial is None or serial in held]
    if not free:
        return
    locked = yield Statement(SQL["hold"], {"generations": integers(free)})
    ours = {generation for (generation,) in locked}
    for generation in free:
        if generation in ours:
            row = yield from world.row(generation)
            yield from recover_row(world, row, host=hosts[row.worker_number or 0])
