"""offer: requests inside the caller's own transaction, and how the engine takes them in afterwards.

A request without a key becomes a job at once: it can meet nobody. One with a key is written down
and placed by the next operation of the engine, as if it had been put at the moment it was offered.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from duly.job import Decision, Request
from duly.stores.contract import Placed
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations import serials
from duly.stores.postgres.operations.arrays import integers, stored, stored_or_none, words
from duly.stores.postgres.operations.arrivals import arrived, rehearse
from duly.stores.postgres.operations.put import SQL as PUT
from duly.stores.postgres.operations.put import put_arrivals
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.arrivals import Arrival
from duly.stores.tables.requests import FORMAT, decode, encode

SQL = statements("intake")

BATCH: Final = 1000
"""Requests placed in one transaction, so that no key stays locked for long."""

_log = logging.getLogger("duly.postgres")


class Line(NamedTuple):
    """A request as it was written down."""

    number: int
    id: str
    offered_at: int
    text: str

    def read(self) -> Arrival:
        """The request, known to be one that can be stored; fails in as many ways as a text can be wrong."""
        return rehearse(arrived(decode(self.text), self.offered_at))


def offer(world: World, requests: Sequence[Request]) -> Steps[list[Placed]]:
    """Store what can be stored, write the rest down. Nothing here can make another user wait."""
    arrivals = [rehearse(arrived(request, world.now)) for request in requests]
    free = yield from put_arrivals(world, [one for one in arrivals if one.serial is None])
    noted = yield from _append(world, [one for one in arrivals if one.serial is not None])
    placed = {answer.id: answer for answer in [*free, *noted]}
    return [placed[request.id] for request in requests]


def _append(world: World, arrivals: Sequence[Arrival]) -> Steps[list[Placed]]:
    if not arrivals:
        return []
    ids = [arrival.request.id for arrival in arrivals]
    known: dict[str, int] = {}
    if not world.moment.is_guest:  # see put.sql; who takes it in later knows it again
        known = dict((yield Statement(PUT["known"], {"ids": words(ids)})))
    fresh = [arrival for arrival in arrivals if arrival.request.id not in known]
    if fresh:
        yield Statement(SQL["append"], _lines(fresh))
    return [
        Placed(one, known[one], Decision.KEPT) if one in known else Placed(one, 0, Decision.PENDING)
        for one in ids
    ]


def _lines(arrivals: Sequence[Arrival]) -> dict[str, str]:
    return {
        "ids": words([arrival.request.id for arrival in arrivals]),
        "keys": words([stored_or_none(arrival.request.key) for arrival in arrivals]),
        "offered": integers([arrival.at for arrival in arrivals]),
        "requests": words([stored(encode(arrival.request)) for arrival in arrivals]),
    }


def absorb(world: World) -> Steps[int]:
    """Place what was committed since the last look, oldest first; answers how many there were.

    One process at a time, or two requests for one key could change places. Nobody waits for it: whoever
    is at it sees to everything.
    """
    wanted = {"format": FORMAT, "limit": BATCH}
    if not (yield Statement(SQL["alone"]))[0][0]:
        return 0
    lines = [Line(*values) for values in (yield Statement(SQL["pending"], wanted))]
    arrivals: list[Arrival] = []
    for line in lines:
        try:
            arrivals.append(line.read())
        except Exception as error:  # one bad line must not keep every worker from everything else
            yield from _set_aside(line, error)
    yield from put_arrivals(world, arrivals)
    numbers = integers(line.number for line in lines)
    yield Statement(SQL["clear"], {"numbers": numbers, "format": FORMAT})
    yield from _promote_freed(world)
    return len(lines)


def _promote_freed(world: World) -> Steps[None]:
    """Jobs that ended inside a caller's transaction left it to us to see who waits behind them."""
    freed = {serial for (serial,) in (yield Statement(SQL["freed"]))}
    yield from serials.lock(freed)
    for serial in sorted(freed):
        yield from world.promote(serial)


def _set_aside(line: Line, error: Exception) -> Steps[None]:
    """Leave it to newer code, which may have written it, and out of the way of ours."""
    _log.error(
        "The request %s cannot be read by this version of Duly (%s: %s). It stays in the intake for a newer "
        "one; if there is none, delete its row there and enqueue it again.",
        line.id,
        type(error).__name__,
        error,
    )
    yield Statement(SQL["set_aside"], {"number": line.number, "format": FORMAT})


def pending_of(ids: Sequence[str], key: str | None) -> Steps[list[Arrival]]:
    """Requests not yet placed, newest first, for those who ask by id or key."""
    found = yield Statement(SQL["pending_of"], {"ids": words(ids), "key": stored_or_none(key)})
    return [arrival for values in found if (arrival := _read_or_none(Line(*values))) is not None]


def _read_or_none(line: Line) -> Arrival | None:
    try:
        return line.read()
    except Exception:  # who absorbs it says so
        return None
