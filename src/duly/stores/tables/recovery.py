"""What becomes of a job whose worker let its lease run out."""

from __future__ import annotations

from duly.job import Delivery, Wish
from duly.lifecycle import CRASH_CAP
from duly.stores.drive import Steps
from duly.stores.tables.rows import R, World, blame


def recover_row(world: World[R], row: R, *, host: str) -> Steps[None]:
    """It becomes ready again, or ends as it must."""
    row.forget_claim()
    evidence = f"lease ran out on {host}"
    if row.superseded_by is not None:
        yield from world.note(row, "lease ran out", evidence)
        yield from world.tally("superseded")
        yield from world.finish(row, "supersede", f"superseded by {row.superseded_by}")
    elif row.wish in (Wish.CANCEL, Wish.DELETE):
        yield from _end_wished(world, row, evidence)
    elif row.delivery is Delivery.AT_MOST_ONCE and row.has_begun:
        yield from world.note(row, "lease ran out", evidence)
        blame(row, evidence, world.now)
        yield from world.finish(row, "interrupt", "interrupted, outcome unknown")
    elif row.began_isolated and row.crashes + 1 >= CRASH_CAP and not row.perpetual:  # that one goes on
        row.crashes += 1
        yield from world.note(row, "crash", evidence)
        blame(row, f"crashed: {evidence}", world.now)
        yield from world.finish(row, "fail", "crashed too often")
    else:
        yield from world.note(row, "lease ran out", evidence)
        row.crashes += 1 if row.began_isolated else 0
        row.is_suspect = True
        yield from world.take_back(row)


def _end_wished(world: World[R], row: R, evidence: str) -> Steps[None]:
    yield from world.note(row, "lease ran out", evidence)
    yield from world.finish(row, "cancel", "cancelled while running")
    if row.wish is Wish.DELETE:
        yield from world.remove(row)
