"""put: create, keep, queue or supersede by key, and say which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple, cast

from duly import clash
from duly.bundle import Bundle
from duly.job import Decision, Request
from duly.stores.contract import Placed
from duly.stores.drive import Operation, Statement, Steps
from duly.stores.drive import Row as Values
from duly.stores.postgres.operations import serials
from duly.stores.postgres.operations.arrays import all_stored, stored, stored_or_none, words
from duly.stores.postgres.operations.arrivals import arrays, arrived, columns, keyed, track_of
from duly.stores.postgres.operations.overtake import lines_for, overtaken_by, skip
from duly.stores.postgres.operations.rows import Peer, Row
from duly.stores.postgres.operations.swift import Message, Outlook, Rest, Texts, Whole, as_texts
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World, digest
from duly.stores.tables.arrivals import Arrival, are_alike, bundled
from duly.stores.tables.instants import instant, span, stamp, stamp_or_none
from duly.stores.tables.placements import clear_the_way, merge

SQL = statements("put")
NO_TIME: Final = timedelta(0)
FIRST: Final = 128
"""Requests in the first part of a message, for which nobody has anything to do but to wait."""
LONGEST: Final = 4096
"""Requests in one part, at most: the text of a million need not be held at once."""
_NEW: Final = cast(Any, tuple).__new__
LOOK: Final = "    where not exists (select 1 from {schema}.job where job.id = made.id offset 0)\n"


def put(world: World, requests: Sequence[Request]) -> Steps[list[Placed]]:
    """Requests made now."""
    return (yield from put_arrivals(world, [arrived(request, world.now) for request in requests]))


Placing = Callable[[Sequence[Request]], Operation[list[Placed]]]


class Form(NamedTuple):
    """What plain requests of one pattern have in common, as a message says it."""

    pattern: Request
    given: dict[str, bytes | None]


class Forms:
    """The form used last: a task is mostly asked for many times in a row, with one pattern for all."""

    def __init__(self, outlook: Callable[[], Outlook]) -> None:
        self._outlook = outlook
        self._last: Form | None = None

    def find(self, pattern: Request) -> Form | None:
        """None for requests that may meet somebody, and for those of a lane that nobody has used before."""
        last = self._last
        if last is None or last.pattern is not pattern:
            last = self._made(pattern)
        return last

    def lacks_lane(self, bundle: Bundle) -> bool:
        """Whether many plain requests would go in one message, if only their lane had a number we know."""
        pattern = bundle.pattern
        if len(bundle.ids) <= FIRST or (self._last is not None and self._last.pattern is pattern):
            return False
        return not _is_bound(pattern) and self._outlook().book.find(track_of(pattern)) is None

    def filled(self, pattern: Request) -> dict[str, bytes | None] | None:
        """What a message says at this moment: without a clock of our own, the same every time."""
        form = self.find(pattern)
        if form is None or form.given["now"] is None:
            return form and form.given
        return form.given | as_texts(self._outlook().given())

    def _made(self, pattern: Request) -> Form | None:
        outlook = self._outlook()
        lane = outlook.book.find(track_of(pattern))
        if lane is None or _is_bound(pattern):
            return None
        try:
            form = self._last = Form(pattern, as_texts(outlook.given() | _written(pattern, lane)))
        except UnicodeEncodeError:  # the ordinary way says what is wrong
            return None
        return form

    def forget(self) -> None:
        """Lanes may have other numbers at the next opening."""
        self._last = None


def put_swiftly(forms: Forms, requests: Sequence[Request], placing: Placing) -> Message[list[Placed]] | None:
    """Requests that meet nobody and differ in id and arguments only, in one message; None for any others.

    None of them is stored when an id is known or the store is being moved: then all are left to `placing`.
    """
    bundle = bundled(requests)
    given = None if bundle is None else forms.filled(bundle.pattern)
    if bundle is None or given is None:
        return None
    if len(bundle.ids) > 1:
        return _saying_all(given, bundle)
    try:
        return _saying_one(given, bundle, placing)
    except UnicodeEncodeError:  # the ordinary way says what is wrong
        return None


def _saying_one(given: dict[str, bytes | None], bundle: Bundle, placing: Placing) -> Message[list[Placed]]:
    (job_id,), (text,) = bundle.ids, bundle.arguments

    def read(answers: Sequence[list[Values]]) -> Whole[list[Placed]] | Rest[list[Placed]]:
        if answers[0]:
            return Whole([Placed(job_id, answers[0][0][0], Decision.CREATED)])
        return Rest(placing(bundle), list)

    whole = Texts(given, id=job_id.encode(), text=stored(text).encode())
    return Message((Statement(SQL["insert_one"], whole),), read)


def _saying_all(given: dict[str, bytes | None], bundle: Bundle) -> Message[list[Placed]]:
    parts = _parts(len(bundle.ids))

    def read(answers: Sequence[list[Values]]) -> Whole[list[Placed]]:
        generations: list[int] = []
        for part, ((first, others),) in zip(parts, answers, strict=True):
            generations += others or range(first, first + part.stop - part.start)
        return Whole(_created(bundle.ids, generations))

    text = SQL["insert_swiftly"]
    return Message(tuple([Statement(text, partial(_spoken, given, bundle, part)) for part in parts]), read)


def _parts(amount: int) -> list[slice]:
    """Each twice as long as the one before, since packing a request takes half as long as storing it.

    So the server always has something to do. A part costs it 60 µs beside its requests.
    """
    parts: list[slice] = []
    start, size = 0, FIRST
    while start < amount:
        stop = start + size if amount - start - size >= FIRST else amount
        parts.append(slice(start, stop))
        start, size = stop, min(2 * size, LONGEST)
    return parts


def _spoken(given: dict[str, bytes | None], bundle: Bundle, part: slice) -> Texts:
    """Packed here, while the server is at work with the part before."""
    texts = words(all_stored(bundle.arguments[part])).encode()
    return Texts(given, ids=words(bundle.ids[part]).encode(), texts=texts)


def _created(ids: Sequence[str], generations: Sequence[int]) -> list[Placed]:
    """All of them at once, which takes a third of what it takes to make each by its name."""
    rows = zip(ids, generations, repeat(Decision.CREATED, len(ids)), strict=True)
    return list(map(_NEW, repeat(Placed), rows))


def _is_bound(request: Request) -> bool:
    """Whether it may meet somebody, or its time may run out."""
    has_guard = request.guard is not None or request.expires_after is not None
    return has_guard or request.lane_of_serial is not None


def _written(pattern: Request, lane: int) -> dict[str, Any]:
    return {
        "due": stamp_or_none(pattern.run_after),
        "delay": span(pattern.delay or NO_TIME),
        "keep_done": span(pattern.keep.done),
        "keep_failed": span(pattern.keep.failed),
        "tick": stamp_or_none(pattern.tick),
        "lane": lane,
        "per_key": pattern.per_key,
        "perpetual": pattern.perpetual,
        "overlap": pattern.overlap,
        "delivery": pattern.delivery,
        "context": stored(pattern.context),
    }


def put_arrivals(world: World, arrivals: Sequence[Arrival]) -> Steps[list[Placed]]:
    """Lock what they are about, in order, then place them."""
    world.book.prepare(arrival.request for arrival in arrivals)
    yield from serials.lock(keyed(arrivals))
    return (yield from place_arrivals(world, arrivals))


def place_arrivals(world: World, arrivals: Sequence[Arrival]) -> Steps[list[Placed]]:
    """Runs of requests that meet nobody, or overtake whom they meet, are stored together; others in turn."""
    taken = yield from _taken(keyed(arrivals))
    lines = yield from lines_for(arrivals, taken)
    placed: list[Placed] = []
    fresh: list[Arrival] = []
    late: list[tuple[Peer, Arrival]] = []
    for arrival in arrivals:
        ahead = _ahead(arrival, taken, lines)
        if ahead is not None:
            fresh.append(arrival)
            late += [(peer, arrival) for peer in ahead]
        else:
            placed += yield from _store(world, fresh, late)
            fresh, late = [], []
            placed.append((yield from _put_one(world, arrival)))
        if arrival.serial is not None:
            taken.add(arrival.serial)
    return placed + (yield from _store(world, fresh, late))


def _ahead(arrival: Arrival, taken: set[str], lines: dict[str, list[Peer]]) -> list[Peer] | None:
    """Whom a request overtakes when it is stored together with others; None if it is not to be."""
    serial = arrival.serial
    if serial is None or (serial not in taken and arrival.request.guard is None):
        return []
    line = lines.pop(serial, None)  # true for the first that comes: the next one finds that one too
    return None if line is None else overtaken_by(arrival, line)


def _taken(wanted: set[str]) -> Steps[set[str]]:
    """Serials for which something stands already."""
    if not wanted:
        return set()
    found = yield Statement(SQL["taken"], {"serials": words(sorted(wanted))})
    return {serial for (serial,) in found}


# --- requests that are stored together ------------------------------------------------------------------


def _store(
    world: World, fresh: Sequence[Arrival], late: Sequence[tuple[Peer, Arrival]]
) -> Steps[list[Placed]]:
    if not fresh:
        return []
    yield from skip(world, late)
    ids = [arrival.request.id for arrival in fresh]
    if len(set(ids)) < len(ids):
        return (yield from _store_singly(world, fresh))
    made: dict[str, int] = dict((yield _insertion(world, fresh)))
    if len(made) == len(ids):
        return [Placed(job_id, made[job_id], Decision.CREATED) for job_id in ids]
    unmade = words([one for one in ids if one not in made])
    known: dict[str, int] = dict((yield Statement(SQL["known"], {"ids": unmade})))
    return [
        Placed(job_id, made[job_id], Decision.CREATED)
        if job_id in made
        else Placed(job_id, known[job_id], Decision.KEPT)
        for job_id in ids
    ]


def _insertion(world: World, fresh: Sequence[Arrival]) -> Statement:
    first = fresh[0]
    is_simple = first.serial is None and first.request.expires_after is None
    if is_simple and are_alike(fresh):
        batch = {
            "ids": words([arrival.request.id for arrival in fresh]),
            "texts": words([stored(arrival.request.arguments) for arrival in fresh]),
        }
        return Statement(_look(world, "insert_alike"), columns(first, world.book) | batch)
    return Statement(_look(world, "insert_each"), arrays(fresh, world.book))


def _look(world: World, name: str) -> str:
    """With a look for ids that are known already, so that they cost no generation; guests do without."""
    return SQL[name].replace(LOOK, "") if world.moment.is_guest else SQL[name]


def _store_singly(world: World, fresh: Sequence[Arrival]) -> Steps[list[Placed]]:
    placed: list[Placed] = []
    for arrival in fresh:
        answer = yield from _put_one(world, arrival)
        placed.append(answer)
    return placed


# --- requests that may meet somebody ------------------------------------------------------------


def _put_one(world: World, arrival: Arrival) -> Steps[Placed]:
    request = arrival.request
    known = yield Statement(SQL["known"], {"ids": words([request.id])})
    if known:  # the same request again: its first answer was lost on the way
        return Placed(request.id, known[0][1], Decision.KEPT)
    scene = yield from _scene(world, request)
    placement = clash.place(request, scene, instant(arrival.at))
    yield from clear_the_way(world, request, placement, partial(_standing, world))
    generation = yield from _write(world, arrival, placement)
    if placement.is_suppressed:
        yield from world.tally("suppressed")
    if placement.opens_window:
        yield from _open_window(arrival, placement)
    return Placed(placement.id, generation, placement.decision)


def _scene(world: World, request: Request) -> Steps[clash.Scene]:
    """Everything that stands for the serial of a request."""
    if request.lane_of_serial is None:
        return clash.Scene()
    serial = digest(request.lane_of_serial)
    peers = yield from world.peers(serial)
    window = yield from window_for(request)
    marker = yield Statement(SQL["has_marker"], {"serial": serial})
    return clash.Scene(
        waiting=[_stander(peer) for peer in peers if not peer.is_running],
        running=[_stander(peer) for peer in peers if peer.is_running],
        window=window,
        has_marker=bool(marker),
    )


def window_for(request: Request) -> Steps[clash.Window | None]:
    """The duplicate guard last opened for its serial."""
    name = request.lane_of_serial
    found = yield Statement(SQL["window"], {"serial": None if name is None else digest(name)})
    return clash.Window(instant(found[0][0]), found[0][1]) if found else None


def _stander(peer: Peer) -> clash.Stander:
    return clash.Stander(peer.id, peer.key, peer.generation)


def _standing(world: World, job_id: str) -> Steps[Row]:
    row = yield from world.named(job_id)
    assert row is not None, "the scene was read under the lock of its serial"
    return row


def _write(world: World, arrival: Arrival, placement: clash.Placement) -> Steps[int]:
    due = arrival.due if placement.due is None else stamp(placement.due)
    if placement.creates:
        return (yield from _create(world, arrival, due, is_parked=placement.is_parked))
    if placement.merges_into:
        return (yield from _merge(world, arrival, placement.merges_into, due))
    standing = yield Statement(SQL["known"], {"ids": words([placement.id])})
    return standing[0][1] if standing else 0


def _create(world: World, arrival: Arrival, due: int, *, is_parked: bool) -> Steps[int]:
    yield from world.unmark(arrival.serial)
    generation = yield from world.draw()
    job = columns(arrival, world.book, due=due) | {"generation": generation}
    yield Statement(SQL["insert_parked" if is_parked else "insert_ready"], job)
    return generation


def _merge(world: World, arrival: Arrival, into: str, due: int) -> Steps[int]:
    row = yield from _standing(world, into)
    merge(row, arrival, due)
    row.lane = world.book.number(track_of(arrival.request)._replace(task=row.task))
    yield from world.rearrange(row)
    return row.generation


def _open_window(arrival: Arrival, placement: clash.Placement) -> Steps[None]:
    if arrival.window_ends_at is not None and arrival.serial is not None:
        window = {"serial": arrival.serial, "until": arrival.window_ends_at, "id": placement.id}
        name = stored_or_none(arrival.request.lane_of_serial)
        yield Statement(SQL["open_window"], window | {"name": name})
