"""What a request does to the jobs that stand in its way."""

from __future__ import annotations

from collections.abc import Callable

from duly.clash import Placement
from duly.job import Request, State, Wish
from duly.stores.drive import Steps
from duly.stores.tables.arrivals import Arrival
from duly.stores.tables.instants import span_or_none
from duly.stores.tables.rows import R, Row, World, expire_after

Read = Callable[[str], Steps[R]]
"""Finds a job of the scene, which cannot have gone: what it stands for is locked."""


def clear_the_way(world: World[R], request: Request, placement: Placement, read: Read[R]) -> Steps[None]:
    """Supersede, overtake and cancel, as the placement says."""
    for job_id in placement.supersedes:
        yield from _supersede(world, (yield from read(job_id)), by=request.id)
    for job_id in placement.overtakes:
        yield from world.finish((yield from read(job_id)), "overtake", f"overtaken by {request.key}")
    for job_id in placement.cancels:
        row = yield from read(job_id)
        row.wish = row.wish if row.wish is Wish.DELETE else Wish.CANCEL
        yield from world.tell(row)


def _supersede(world: World[R], row: R, *, by: str) -> Steps[None]:
    """A waiting job is cancelled at once; a running one is marked and learns it at its next write."""
    if row.state is State.RUNNING:
        row.superseded_by = by
        yield from world.tell(row)
    else:
        yield from world.finish(row, "supersede", f"superseded by {by}")
        yield from world.tally("superseded")


def merge(row: Row, arrival: Arrival, due: int) -> None:
    """One job, latest arguments, earliest time, fresh budget."""
    request = arrival.request
    row.arguments = request.arguments
    row.context = request.context
    row.ready_at = min(row.ready_at, due)
    row.due = min(row.due, due)
    row.expires_after = span_or_none(request.expires_after)
    expire_after(row, arrival.at)
    row.attempt = row.crashes = row.deferrals = 0
    row.first_failure = None
    row.cycle += 1  # other arguments are another effect: the idempotency key must not repeat
