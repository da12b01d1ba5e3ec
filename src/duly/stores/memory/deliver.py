"""deliver: what relays bring from an outbox, each request once, per serial never an older after a newer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duly.job import Decision
from duly.stores.contract import REMEMBERED, Parcel, Placed
from duly.stores.memory.put import put_one, refuse_halves
from duly.stores.memory.world import Delivered, World


def deliver(world: World, outbox: str, parcels: Sequence[Parcel]) -> list[Placed]:
    for parcel in parcels:
        refuse_halves(parcel.request)
    return [_deliver_one(world, outbox, parcel) for parcel in parcels]


def _deliver_one(world: World, outbox: str, parcel: Parcel) -> Placed:
    request, until = parcel.request, world.now() + REMEMBERED
    if request.id in world.delivered:  # its relay died before it could say so, or slept past its lease
        known = world.rows.get(request.id)
        return Placed(request.id, known.generation if known else 0, Decision.KEPT)
    serial = request.lane_of_serial
    last = world.numbers.get((outbox, serial or ""))
    if last is not None and last.number >= parcel.number:
        world.tallies["superseded"] += 1
        return Placed(request.id, 0, Decision.PENDING)
    placed = put_one(world, request, world.now() - parcel.age)
    world.delivered[request.id] = until
    if serial is not None:
        world.numbers[outbox, serial] = Delivered(parcel.number, until)
    return placed


def forget(world: World, now: datetime) -> None:
    """Let go of what no relay can bring again."""
    for job_id in [job_id for job_id, until in world.delivered.items() if until <= now]:
        del world.delivered[job_id]
    for serial in [serial for serial, last in world.numbers.items() if last.until <= now]:
        del world.numbers[serial]
