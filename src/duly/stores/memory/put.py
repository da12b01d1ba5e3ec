"""put: create, keep, queue or supersede by key, and say which."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duly import clash
from duly.job import Decision, Request, State, Wish
from duly.stores.contract import Placed
from duly.stores.memory.world import Row, Window, World, expiry


def put(world: World, requests: Sequence[Request]) -> list[Placed]:
    for request in requests:
        refuse_halves(request)
    now = world.now()
    return [put_one(world, request, now) for request in requests]


def put_one(world: World, request: Request, at: datetime) -> Placed:
    """Place a request made at that moment."""
    known = world.rows.get(request.id)
    if known is not None:  # the same request again: its first answer was lost on the way
        return Placed(known.id, known.generation, Decision.KEPT)
    placement = clash.place(request, scene_of(world, request), at)
    _clear_the_way(world, request, placement)
    generation = _write(world, request, placement, at)
    if placement.is_suppressed:
        world.tallies["suppressed"] += 1
    if placement.opens_window and request.guard and request.lane_of_serial:
        world.windows[request.lane_of_serial] = Window(at + request.guard.window, placement.id)
    return Placed(placement.id, generation, placement.decision)


def refuse_halves(request: Request) -> None:
    """Half a character cannot be written by any other store, so it is refused here too."""
    for text in (request.id, request.task, request.queue, request.key, request.serial):
        (text or "").encode()
    for text in (request.arguments, request.context):
        text.encode()


def due_of(request: Request, at: datetime) -> datetime:
    """Absolute, relative to the store's clock, or at once."""
    if request.run_after is not None:
        return request.run_after
    return at if request.delay is None else at + request.delay


def scene_of(world: World, request: Request) -> clash.Scene:
    serial = request.lane_of_serial
    if serial is None:
        return clash.Scene()
    window = world.windows.get(serial)
    return clash.Scene(
        waiting=[_stander(row) for row in world.live(serial, State.WAITING)],
        running=[_stander(row) for row in world.live(serial, State.RUNNING)],
        window=clash.Window(window.until, window.id) if window else None,
        has_marker=serial in world.markers,
    )


def _stander(row: Row) -> clash.Stander:
    return clash.Stander(row.id, row.key, row.generation)


def _clear_the_way(world: World, request: Request, placement: clash.Placement) -> None:
    for job_id in placement.supersedes:
        supersede(world, world.rows[job_id], by=request.id)
    for job_id in placement.overtakes:
        world.finish(world.rows[job_id], "overtake", f"overtaken by {request.key}")
    for job_id in placement.cancels:
        row = world.rows[job_id]
        row.wish = row.wish if row.wish is Wish.DELETE else Wish.CANCEL


def supersede(world: World, row: Row, *, by: str) -> None:
    """A waiting job is cancelled at once; a running one is marked and learns it at its next write."""
    if row.state is State.RUNNING:
        row.superseded_by = by
    else:
        world.finish(row, "supersede", f"superseded by {by}")
        world.tallies["superseded"] += 1


def _write(world: World, request: Request, placement: clash.Placement, at: datetime) -> int:
    due = placement.due or due_of(request, at)
    if placement.creates:
        if request.lane_of_serial:
            world.markers.pop(request.lane_of_serial, None)
        return world.create(request, at=at, due=due, is_parked=placement.is_parked).generation
    if placement.merges_into:
        row = world.rows[placement.merges_into]
        _merge(row, request, due, at)
        return row.generation
    standing = world.rows.get(placement.id)
    return standing.generation if standing else 0


def _merge(row: Row, request: Request, due: datetime, at: datetime) -> None:
    """One job, latest arguments, earliest time, fresh budget."""
    row.arguments = request.arguments
    row.context = request.context
    row.queue, row.priority = request.queue, request.priority
    row.ready_at = min(row.ready_at, due)
    row.due = min(row.due, due)
    row.expires_at, row.expires_after = expiry(at, request.expires_after), request.expires_after
    row.attempt = row.crashes = row.deferrals = 0
    row.first_failure = None
    row.cycle += 1  # other arguments are another effect: the idempotency key must not repeat
