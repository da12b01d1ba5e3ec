"""What a claim does before it lends: take back what dead workers held, skip what came too late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from duly.ids import new_nonce
from duly.job import Delivery, State, Wish
from duly.lifecycle import CRASH_CAP
from duly.stores.contract import Ask
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.lanes import serves
from duly.stores.sqlite.operations.rows import Row
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World

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
        yield from _recover_one(world, row, host=dead[row.worker].host or "an unknown host")


def _recover_one(world: World, row: Row, *, host: str) -> Steps[None]:
    row.nonce = new_nonce()  # the old claim must not be taken for the one that ended the job
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
    """Back to the ready set, still ahead of what is parked behind it."""
    yield from world.note(row, "lease ran out", evidence)
    row.crashes += 1 if row.began_isolated else 0
    row.is_suspect = True
    row.state = State.WAITING
    row.ready_at = world.now
    row.worker = ""
    row.has_begun = row.began_isolated = False
    yield from world.save(row)


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
