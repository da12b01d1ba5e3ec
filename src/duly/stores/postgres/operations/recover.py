"""What a claim does first about workers whose lease ran out: take back what they held."""

from __future__ import annotations

from collections.abc import Mapping

from duly.job import Delivery, Wish
from duly.lifecycle import CRASH_CAP
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations import serials
from duly.stores.postgres.operations.arrays import integers
from duly.stores.postgres.operations.rows import Row
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World

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
            yield from _recover_one(world, row, host=hosts[row.worker_number or 0])


def _recover_one(world: World, row: Row, *, host: str) -> Steps[None]:
    row.seed = None  # the old claim must not be taken for the one that ended the job
    evidence = f"lease ran out on {host}"
    if row.superseded_by is not None:
        yield from world.note(row, "lease ran out", evidence)
        yield from world.tally("superseded")
        yield from world.finish(row, "supersede", f"superseded by {row.superseded_by}")
    elif row.wish in (Wish.CANCEL, Wish.DELETE):
        yield from _end_wished(world, row, evidence)
    elif row.delivery is Delivery.AT_MOST_ONCE and row.has_begun:
        yield from world.note(row, "lease ran out", evidence)
        row.error = evidence
        yield from world.finish(row, "interrupt", "interrupted, outcome unknown")
    elif row.began_isolated and row.crashes + 1 >= CRASH_CAP and not row.perpetual:  # that one goes on
        row.crashes += 1
        yield from world.note(row, "crash", evidence)
        row.error = f"crashed: {evidence}"
        yield from world.finish(row, "fail", "crashed too often")
    else:
        yield from _lend_again(world, row, evidence)


def _end_wished(world: World, row: Row, evidence: str) -> Steps[None]:
    yield from world.note(row, "lease ran out", evidence)
    yield from world.finish(row, "cancel", "cancelled while running")
    if row.wish is Wish.DELETE:
        yield from world.remove(row)


def _lend_again(world: World, row: Row, evidence: str) -> Steps[None]:
    yield from world.note(row, "lease ran out", evidence)
    row.crashes += 1 if row.began_isolated else 0
    row.is_suspect = True
    yield from world.take_back(row)
