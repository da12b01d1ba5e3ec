"""offer: requests inside the caller's own transaction, and how the engine takes them in afterwards.

A request without a key becomes a job at once: it can meet nobody. One with a key is written down
and placed by the next operation of the engine, as if it had been put at the moment it was offered.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from duly.job import Clash, Decision, Delivery, Guard, Keep, Overlap, Request
from duly.stores.contract import Placed
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.arrivals import Arrival
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.moment import (
    duration,
    duration_or_none,
    instant_or_none,
    span,
    span_or_none,
    stamp_or_none,
)
from duly.stores.sqlite.operations.put import SQL as PUT
from duly.stores.sqlite.operations.put import put, put_arrivals
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World

SQL = statements("intake")

FIELDS: Final = frozenset(field.name for field in fields(Request))


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
    line = {"id": request.id, "key": request.key, "offered_at": world.now, "request": encode(request)}
    yield Statement(SQL["append"], line)
    return Placed(request.id, 0, Decision.PENDING)


def absorb(world: World) -> Steps[None]:
    """Place what was committed since the last look, oldest first."""
    pending = yield Statement(SQL["pending"])
    if pending:
        yield Statement(SQL["clear"])
        yield from put_arrivals(world, [Arrival(decode(text), at) for at, text in pending])


def pending_of(ids: Sequence[str], key: str | None) -> Steps[list[Arrival]]:
    """Requests not yet placed, newest first, for those who ask by id or key."""
    found = yield Statement(SQL["pending_of"], {"ids": pack(ids), "key": key})
    return [Arrival(decode(text), at) for at, text in found]


def encode(request: Request) -> str:
    """A request as text."""
    guard = request.guard
    values: dict[str, Any] = {
        "id": request.id,
        "task": request.task,
        "arguments": request.arguments,
        "queue": request.queue,
        "priority": request.priority,
        "key": request.key,
        "serial": request.serial,
        "run_after": stamp_or_none(request.run_after),
        "delay": span_or_none(request.delay),
        "expires_after": span_or_none(request.expires_after),
        "clash": request.clash,
        "overlap": request.overlap,
        "per_key": request.per_key,
        "guard": None if guard is None else [span(guard.window), guard.trailing],
        "delivery": request.delivery,
        "keep": [span(request.keep.done), span(request.keep.failed)],
        "perpetual": request.perpetual,
        "tick": stamp_or_none(request.tick),
        "context": request.context,
    }
    return json.dumps(values)


def decode(text: str) -> Request:
    """The request that `encode` wrote; a field that only newer code knows is left to newer code."""
    values: dict[str, Any] = {name: value for name, value in json.loads(text).items() if name in FIELDS}
    guard, keep = values["guard"], values["keep"]
    values |= {
        "run_after": instant_or_none(values["run_after"]),
        "delay": duration_or_none(values["delay"]),
        "expires_after": duration_or_none(values["expires_after"]),
        "clash": Clash(values["clash"]),
        "overlap": Overlap(values["overlap"]),
        "guard": None if guard is None else Guard(duration(guard[0]), trailing=guard[1]),
        "delivery": Delivery(values["delivery"]),
        "keep": Keep(duration(keep[0]), duration(keep[1])),
        "tick": instant_or_none(values["tick"]),
    }
    return Request(**values)
