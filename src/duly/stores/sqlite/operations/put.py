"""put: create, keep, queue or supersede by key, and say which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, repeat
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeVar

from duly import clash
from duly.bundle import Bundle
from duly.job import Decision, Overlap, Request
from duly.stores.contract import Placed
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.arrivals import arrived, columns
from duly.stores.sqlite.operations.batch import is_cut_short, pack
from duly.stores.sqlite.operations.rows import Row
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.arrivals import Arrival, are_alike
from duly.stores.tables.instants import instant, stamp
from duly.stores.tables.placements import clear_the_way, merge

SQL = statements("put")

Many = TypeVar("Many", Bundle, Sequence[Arrival])

SLICE: Final = 5000
"""Requests per statement: more would not be faster, and the text of a million is held in memory thrice."""


def put(world: World, requests: Sequence[Request]) -> Steps[list[Placed]]:
    """Requests made now."""
    if isinstance(requests, Bundle) and requests.pattern.lane_of_serial is None:
        return (yield from _store(world, requests, _bundled))
    return (yield from put_arrivals(world, [arrived(request, world.now) for request in requests]))


def put_arrivals(world: World, arrivals: Sequence[Arrival]) -> Steps[list[Placed]]:
    """Runs of requests that meet nobody are stored together; the others are placed in their turn."""
    taken = yield from _taken(arrivals)
    placed: list[Placed] = []
    fresh: list[Arrival] = []
    for arrival in arrivals:
        serial = arrival.request.lane_of_serial
        if serial is None or (serial not in taken and arrival.request.guard is None):
            fresh.append(arrival)
        else:
            placed += yield from _store(world, fresh, _gathered)
            fresh = []
            placed.append((yield from put_one(world, arrival)))
        if serial is not None:
            taken.add(serial)
    return placed + (yield from _store(world, fresh, _gathered))


def _taken(arrivals: Sequence[Arrival]) -> Steps[set[str]]:
    """Serials for which something stands already."""
    serials = {serial for arrival in arrivals if (serial := arrival.request.lane_of_serial) is not None}
    if not serials:
        return set()
    found = yield Statement(SQL["taken"], {"serials": pack(list(serials))})
    return {serial for (serial,) in found}


# --- requests that meet nobody ------------------------------------------------------------------


class Fresh(NamedTuple):
    """Requests as one statement stores them, and each by itself for when that will not do."""

    ids: Sequence[str]
    text: str
    job: dict[str, Any]
    arrivals: Callable[[], Sequence[Arrival]]


def _gathered(_: World, fresh: Sequence[Arrival]) -> Fresh:
    text, job = _insertion(fresh)
    return Fresh([arrival.request.id for arrival in fresh], text, job, lambda: fresh)


def _insertion(fresh: Sequence[Arrival]) -> tuple[str, dict[str, Any]]:
    if are_alike(fresh):
        batch = pack([(arrival.request.id, arrival.request.arguments) for arrival in fresh])
        return SQL["insert_alike"], columns(fresh[0]) | {"batch": batch}
    return SQL["insert_each"], {"batch": pack([list(columns(arrival).values()) for arrival in fresh])}


def _bundled(world: World, bundle: Bundle) -> Fresh:
    batch = pack(list(zip(bundle.ids, bundle.arguments, strict=True)))
    job = columns(arrived(bundle.pattern, world.now)) | {"batch": batch}
    each = lambda: [arrived(request, world.now) for request in bundle]  # noqa: E731  made only if it must be
    return Fresh(bundle.ids, SQL["insert_alike"], job, each)


def _store(world: World, fresh: Many, read: Callable[[World, Many], Fresh]) -> Steps[list[Placed]]:
    placed: list[Placed] = []
    for start in range(0, len(fresh), SLICE):
        placed += yield from _store_slice(world, read(world, fresh[start : start + SLICE]))
    return placed


def _store_slice(world: World, fresh: Fresh) -> Steps[list[Placed]]:
    if is_cut_short(fresh.job["batch"]):
        return (yield from _store_singly(world, fresh.arrivals()))
    wanted = len(fresh.ids)
    last = (yield from world.draw(wanted)) - wanted
    yield Statement(fresh.text, fresh.job | {"last": last})
    ((created,),) = yield Statement(SQL["created"])
    if created < wanted:  # some were stored before: take the numbers back, so that none is drawn in vain
        yield Statement(SQL["withdraw"], {"last": last})
        yield Statement(SQL["give_back"], {"last": last})
        return (yield from _store_singly(world, fresh.arrivals()))
    return list(map(Placed, fresh.ids, count(last + 1), repeat(Decision.CREATED)))


def _store_singly(world: World, fresh: Sequence[Arrival]) -> Steps[list[Placed]]:
    placed: list[Placed] = []
    for arrival in fresh:
        answer = yield from put_one(world, arrival)
        placed.append(answer)
    return placed


# --- requests that may meet somebody ------------------------------------------------------------


def put_one(world: World, arrival: Arrival) -> Steps[Placed]:
    request = arrival.request
    known = yield Statement(SQL["known"], {"id": request.id})
    if known:  # the same request again: its first answer was lost on the way
        return Placed(request.id, known[0][0], Decision.KEPT)
    scene = yield from scene_of(world, request)
    placement = clash.place(request, scene, instant(arrival.at))
    yield from clear_the_way(world, request, placement, partial(_stander, world))
    generation = yield from _write(world, arrival, placement)
    if placement.is_suppressed:
        yield from world.tally("suppressed")
    if placement.opens_window:
        yield from _open_window(arrival, placement)
    return Placed(placement.id, generation, placement.decision)


def scene_of(world: World, request: Request) -> Steps[clash.Scene]:
    """Everything that stands for the serial of a request."""
    serial = request.lane_of_serial
    if serial is None:
        return clash.Scene()
    waiting = yield from _waiting(world, request, serial)
    running = yield from world.running(serial)
    window = yield from window_for(request)
    marker = yield Statement(SQL["has_marker"], {"serial": serial})
    return clash.Scene(waiting=waiting, running=running, window=window, has_marker=bool(marker))


def _waiting(world: World, request: Request, serial: str) -> Steps[list[clash.Stander]]:
    """What waits for the serial. A chain of ticks may be long: there the oldest and those of the key do."""
    if request.serial is None or request.overlap not in (Overlap.QUEUE_ALL, Overlap.ALLOW):
        return (yield from world.waiting(serial))
    oldest = yield Statement(SQL["oldest"], {"serial": serial})
    of_key = yield Statement(SQL["of_key"], {"serial": serial, "key": request.key})
    return [clash.Stander(*values) for values in sorted({*oldest, *of_key}, key=itemgetter(2))]


def window_for(request: Request) -> Steps[clash.Window | None]:
    """The duplicate guard last opened for its serial."""
    found = yield Statement(SQL["window"], {"serial": request.lane_of_serial})
    return clash.Window(instant(found[0][0]), found[0][1]) if found else None


def _stander(world: World, job_id: str) -> Steps[Row]:
    row = yield from world.row(job_id)
    assert row is not None, "the scene was read under the write lock"
    return row


def _write(world: World, arrival: Arrival, placement: clash.Placement) -> Steps[int]:
    if placement.creates:
        return (yield from _create(world, arrival, placement))
    if placement.merges_into:
        return (yield from _merge(world, arrival, placement.merges_into, _due(arrival, placement)))
    standing = yield Statement(SQL["known"], {"id": placement.id})
    return standing[0][0] if standing else 0


def _due(arrival: Arrival, placement: clash.Placement) -> int:
    return arrival.due if placement.due is None else stamp(placement.due)


def _create(world: World, arrival: Arrival, placement: clash.Placement) -> Steps[int]:
    yield from world.unmark(arrival.request.lane_of_serial)
    generation = yield from world.draw()
    job = columns(arrival, due=_due(arrival, placement), is_parked=placement.is_parked)
    yield Statement(SQL["insert_one"], job | {"last": generation - 1})
    return generation


def _merge(world: World, arrival: Arrival, into: str, due: int) -> Steps[int]:
    row = yield from _stander(world, into)
    merge(row, arrival, due)
    row.queue, row.rank = arrival.request.queue, -arrival.request.priority
    yield from world.save(row)
    return row.generation


def _open_window(arrival: Arrival, placement: clash.Placement) -> Steps[None]:
    if arrival.window_ends_at is not None and arrival.serial:
        window = {"serial": arrival.serial, "until": arrival.window_ends_at, "id": placement.id}
        yield Statement(SQL["open_window"], window)
