"""What a claim does before it lends: take back what dead workers held, skip what came too late."""

from __future__ import annotations

from collections.abc import Sequence

from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.look import Borrower
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.recovery import recover_row

SQL = statements("recover")


def recover(world: World, dead: Sequence[Borrower]) -> Steps[None]:
    """Running jobs whose worker let its lease run out become ready, or end as they must."""
    hosts = {borrower.worker: borrower.host or "an unknown host" for borrower in dead}
    if not hosts:
        return
    found = yield Statement(SQL["borrowed"], {"workers": pack(list(hosts))})
    for row in (yield from world.rows(generation for (generation,) in found)):
        yield from recover_row(world, row, host=hosts[row.worker])


def expire(world: World, late: Sequence[tuple[str, str]]) -> Steps[None]:
    """Skip what nobody wants any more, parked or not, before lending: it may stand in another's way."""
    keyed: list[tuple[int, int]] = []
    for queue, task in late:
        lane = {"queue": queue, "task": task, "now": world.now}
        yield Statement(SQL["expire_free"], lane)
        keyed += [(entered, generation) for generation, entered in (yield Statement(SQL["late"], lane))]
    if keyed:
        for row in (yield from world.rows(generation for _, generation in sorted(keyed))):
            yield from world.finish(row, "expire", "expired")
