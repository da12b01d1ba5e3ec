"""One verdict against whatever happened while its run was under way."""

from __future__ import annotations

from functools import partial

from duly.lifecycle import Settled
from duly.stores.contract import Settlement
from duly.stores.drive import Steps
from duly.stores.postgres.operations.arrivals import arrived
from duly.stores.postgres.operations.put import place_arrivals, window_for
from duly.stores.postgres.operations.rows import Row
from duly.stores.postgres.operations.world import World
from duly.stores.tables import verdicts
from duly.stores.tables.verdicts import Neighbours


def settle_row(world: World, row: Row, settlement: Settlement) -> Steps[Settled]:
    """Conclude a run whose fence holds. Its loan and every serial it speaks of are locked."""
    neighbours = Neighbours(window_for, partial(_queued, world, row))
    answer, follow_ups = yield from verdicts.settle_row(world, row, settlement, neighbours)
    yield from place_arrivals(world, [arrived(request, world.now) for request in follow_ups])
    return answer


def _queued(world: World, row: Row) -> Steps[str | None]:
    """The newest request that waits for the key of a run."""
    behind = [peer.id for peer in (yield from world.peers(row.serial)) if peer.waits_for(row.key)]
    return behind[-1] if behind else None
