"""What a claim does before it lends: take back what dead workers held, skip what came too late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from duly.stores.contract import Ask
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.lanes import serves
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.recovery import recover_row

SQL = statements("recover")


class Borrower(NamedTuple):
    """A worker with jobs on loan."""

    worker: str
    host: str | None
    lease_until: int | None

    def has_lease(self, boot: int) -> bool:
        return self.lease_until is not None and self.lease_until > boot


def borrowers(world: World) -> Steps[list[Borrower]]:
    """Every worker with a job on loan, alive or not."""
    found = yield Statement(SQL["borrowers"], {"boot_id": world.moment.boot_id})
    return [Borrower(*values) for values in found]


def recover(world: World, known: Sequence[Borrower]) -> Steps[None]:
    """Running jobs whose worker let its lease run out become ready, or end as they must."""
    dead = {borrower.worker: borrower for borrower in known if not borrower.has_lease(world.moment.boot)}
    if not dead:
        return
    found = yield Statement(SQL["borrowed"], {"workers": pack(list(dead))})
    for row in (yield from world.rows(generation for (generation,) in found)):
        yield from recover_row(world, row, host=dead[row.worker].host or "an unknown host")


def expire(world: World, ask: Ask) -> Steps[None]:
    """Skip what nobody wants any more, parked or not, before lending: it may stand in another's way."""
    keyed: list[tuple[int, int]] = []
    for queue, task in (yield Statement(SQL["late_lanes"], {"now": world.now})):
        if serves(ask, task, queue):
            lane = {"queue": queue, "task": task, "now": world.now}
            yield Statement(SQL["expire_free"], lane)
            keyed += [(entered, generation) for generation, entered in (yield Statement(SQL["late"], lane))]
    if keyed:
        for row in (yield from world.rows(generation for _, generation in sorted(keyed))):
            yield from world.finish(row, "expire", "expired")
