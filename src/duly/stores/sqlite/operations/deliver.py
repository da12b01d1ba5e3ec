"""deliver: what relays bring from an outbox, each request once, per serial never an older after a newer."""

from __future__ import annotations

from collections.abc import Sequence

from duly.job import Decision
from duly.stores.contract import REMEMBERED, Parcel, Placed
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.arrivals import arrived, rehearse
from duly.stores.sqlite.operations.put import SQL as PUT
from duly.stores.sqlite.operations.put import put_arrivals
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.arrivals import Arrival
from duly.stores.tables.instants import span

SQL = statements("deliver")


def deliver(world: World, outbox: str, parcels: Sequence[Parcel]) -> Steps[list[Placed]]:
    """Place what is new, as if it had been put at the moment it was made."""
    answers: dict[int, Placed] = {}
    fresh: dict[int, Arrival] = {}
    for place, parcel in enumerate(parcels):
        refusal = yield from _refusal(world, outbox, parcel)
        if refusal is not None:
            answers[place] = refusal
        else:
            yield from _number(world, outbox, parcel)
            fresh[place] = rehearse(arrived(parcel.request, world.now - span(parcel.age)))
    placed = yield from put_arrivals(world, list(fresh.values()))
    answers |= dict(zip(fresh, placed, strict=True))
    return [answers[place] for place in range(len(parcels))]


def _refusal(world: World, outbox: str, parcel: Parcel) -> Steps[Placed | None]:
    """Why nothing happens: its relay died before it could say so, or a newer one has overtaken it."""
    request = parcel.request
    if (yield Statement(SQL["known"], {"id": request.id})):
        standing = yield Statement(PUT["known"], {"id": request.id})
        return Placed(request.id, standing[0][0] if standing else 0, Decision.KEPT)
    last = yield Statement(SQL["last"], {"outbox": outbox, "serial": request.lane_of_serial})
    if last and last[0][0] >= parcel.number:
        yield from world.tally("superseded")
        return Placed(request.id, 0, Decision.PENDING)
    yield Statement(SQL["remember"], {"id": request.id, "until": world.now + span(REMEMBERED)})
    return None


def _number(world: World, outbox: str, parcel: Parcel) -> Steps[None]:
    serial = parcel.request.lane_of_serial
    if serial is not None:
        until = world.now + span(REMEMBERED)
        last = {"outbox": outbox, "serial": serial, "number": parcel.number, "until": until}
        yield Statement(SQL["number"], last)


def forget(now: int) -> Steps[None]:
    """Let go of what no relay can bring again."""
    yield Statement(SQL["forget"], {"now": now})
    yield Statement(SQL["forget_numbers"], {"now": now})
