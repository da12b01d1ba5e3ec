"""deliver: what relays bring from an outbox, each request once, per serial never an older after a newer."""

from __future__ import annotations

from collections.abc import Sequence

from duly.job import Decision
from duly.stores.contract import REMEMBERED, Parcel, Placed
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations import serials
from duly.stores.postgres.operations.arrays import integers, words
from duly.stores.postgres.operations.arrivals import arrived, keyed, rehearse
from duly.stores.postgres.operations.put import SQL as PUT
from duly.stores.postgres.operations.put import place_arrivals
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.arrivals import Arrival
from duly.stores.tables.instants import span

SQL = statements("deliver")

Numbered = tuple[Arrival, int]


def deliver(world: World, outbox: str, parcels: Sequence[Parcel]) -> Steps[list[Placed]]:
    """Place what is new, as if it had been put at the moment it was made."""
    brought = [
        (rehearse(arrived(parcel.request, world.now - span(parcel.age))), parcel.number) for parcel in parcels
    ]
    world.book.prepare(parcel.request for parcel in parcels)
    yield from serials.lock(keyed(arrival for arrival, _ in brought))
    unknown = yield from _unknown(world, [parcel.request.id for parcel in parcels])
    last = yield from _last(outbox, keyed(arrival for arrival, _ in brought))
    fresh = _in_order([one for one in brought if one[0].request.id in unknown], last)
    yield from _remember(world, outbox, fresh)
    placed = yield from place_arrivals(world, [arrival for arrival, _ in fresh])
    answers = dict(zip((arrival.request.id for arrival, _ in fresh), placed, strict=True))
    overtaken = unknown - answers.keys()
    if overtaken:
        yield from world.tally("superseded", len(overtaken))
        yield Statement(SQL["unremember"], {"ids": words(sorted(overtaken))})
    answers |= {job_id: Placed(job_id, 0, Decision.PENDING) for job_id in overtaken}
    answers |= yield from _known(
        [parcel.request.id for parcel in parcels if parcel.request.id not in answers]
    )
    return [answers[parcel.request.id] for parcel in parcels]


def _unknown(world: World, ids: Sequence[str]) -> Steps[set[str]]:
    """Those that no relay has brought before; the others' relays died before they could say so."""
    until = world.now + span(REMEMBERED)
    return {job_id for (job_id,) in (yield Statement(SQL["remember"], {"ids": words(ids), "until": until}))}


def _last(outbox: str, wanted: set[str]) -> Steps[dict[str, int]]:
    if not wanted:
        return {}
    return dict((yield Statement(SQL["last"], {"outbox": outbox, "serials": words(sorted(wanted))})))


def _in_order(brought: Sequence[Numbered], last: dict[str, int]) -> list[Numbered]:
    """Without those that a newer one of their serial has overtaken."""
    fresh: dict[str, Numbered] = {}
    for arrival, number in brought:
        serial = arrival.serial
        if serial is None or number > last.get(serial, -1):
            fresh.setdefault(arrival.request.id, (arrival, number))
            if serial is not None:
                last[serial] = number
    return list(fresh.values())


def _remember(world: World, outbox: str, fresh: Sequence[Numbered]) -> Steps[None]:
    numbers = {arrival.serial: number for arrival, number in fresh if arrival.serial is not None}
    if numbers:
        given = {
            "outbox": outbox,
            "serials": words(list(numbers)),
            "numbers": integers(numbers.values()),
            "until": world.now + span(REMEMBERED),
        }
        yield Statement(SQL["number"], given)


def _known(ids: Sequence[str]) -> Steps[dict[str, Placed]]:
    if not ids:
        return {}
    standing: dict[str, int] = dict((yield Statement(PUT["known"], {"ids": words(ids)})))
    return {job_id: Placed(job_id, standing.get(job_id, 0), Decision.KEPT) for job_id in ids}


def forget(now: int, limit: int) -> Steps[None]:
    """Let go of what no relay can bring again."""
    yield Statement(SQL["forget"], {"now": now, "limit": limit})
    yield Statement(SQL["forget_numbers"], {"now": now, "limit": limit})
