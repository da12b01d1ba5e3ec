"""offer: requests inside the caller's own transaction, and how the engine takes them in afterwards.

A request without a key becomes a job at once: it can meet nobody. One with a key is written down
and placed by the next operation of the engine, as if it had been put at the moment it was offered.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from duly.job import Decision, Request
from duly.stores.contract import Placed
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.arrivals import arrived, rehearse
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.put import SQL as PUT
from duly.stores.sqlite.operations.put import put, put_arrivals
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.arrivals import Arrival
from duly.stores.tables.requests import FORMAT, decode, encode

SQL = statements("intake")

_log = logging.getLogger("duly.sqlite")


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
    """Store what can be stored, write the rest down."""
    free = yield from put(world, [request for request in requests if request.lane_of_serial is None])
    answers = iter(free)
    placed: list[Placed] = []
    for request in requests:
        if request.lane_of_serial is None:
            placed.append(next(answers))
        else:
            placed.append((yield from _append(world, request)))
    return placed


def _append(world: World, request: Request) -> Steps[Placed]:
    known = yield Statement(PUT["known"], {"id": request.id})
    if known:
        return Placed(request.id, known[0][0], Decision.KEPT)
    rehearse(arrived(request, world.now))
    line = {"id": request.id, "key": request.key, "offered_at": world.now, "request": encode(request)}
    yield Statement(SQL["append"], line)
    return Placed(request.id, 0, Decision.PENDING)


def absorb(world: World) -> Steps[None]:
    """Place what was committed since the last look, oldest first. Nobody adds to it under the write lock."""
    if not world.has_intake:
        return
    world.has_intake = False
    pending = yield Statement(SQL["pending"], {"format": FORMAT})
    if not pending:
        return
    arrivals: list[Arrival] = []
    for line in (Line(*values) for values in pending):
        try:
            arrivals.append(line.read())
        except Exception as error:  # one bad line must not keep every worker from everything else
            yield from _set_aside(line, error)
    yield Statement(SQL["clear"], {"format": FORMAT})
    yield from put_arrivals(world, arrivals)


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
    found = yield Statement(SQL["pending_of"], {"ids": pack(ids), "key": key})
    return [arrival for values in found if (arrival := _read_or_none(Line(*values))) is not None]


def _read_or_none(line: Line) -> Arrival | None:
    try:
        return line.read()
    except Exception:  # who absorbs it says so
        return None
