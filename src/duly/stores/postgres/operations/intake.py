"""offer: requests inside the caller's own transaction, and how the engine takes them in afterwards.

A request without a key becomes a job at once: it can meet nobody. One with a key is written down
and placed by the next operation of the engine, as if it had been put at the moment it was offered.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from duly.job import Clash, Decision, Delivery, Guard, Keep, Overlap, Request
from duly.stores.contract import Placed
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.arrays import integers, restored, stored, stored_or_none, words
from duly.stores.postgres.operations.arrivals import Arrival
from duly.stores.postgres.operations.moment import (
    duration,
    instant_or_none,
    span,
    span_or_none,
    stamp_or_none,
)
from duly.stores.postgres.operations.put import SQL as PUT
from duly.stores.postgres.operations.put import put_arrivals
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World

SQL = statements("intake")

BATCH = 1000
"""Requests placed in one transaction, so that no key stays locked for long."""


def offer(world: World, requests: Sequence[Request]) -> Steps[list[Placed]]:
    """Store what can be stored, write the rest down. Nothing here can make another user wait."""
    arrivals = [Arrival.of(request, world.now) for request in requests]
    free = yield from put_arrivals(world, [one for one in arrivals if one.serial is None])
    noted = yield from _append([one for one in arrivals if one.serial is not None])
    placed = {answer.id: answer for answer in [*free, *noted]}
    return [placed[request.id] for request in requests]


def _append(arrivals: Sequence[Arrival]) -> Steps[list[Placed]]:
    if not arrivals:
        return []
    ids = [arrival.request.id for arrival in arrivals]
    known: dict[str, int] = dict((yield Statement(PUT["known"], {"ids": words(ids)})))
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
        "requests": words([encode(arrival.request) for arrival in arrivals]),
    }


def absorb(world: World) -> Steps[int]:
    """Place what was committed since the last look, oldest first; answers how many there were.

    One process at a time, or two requests for one key could change places. Nobody waits for it: whoever
    is at it sees to everything.
    """
    pending = yield Statement(SQL["pending"], {"limit": BATCH})
    if pending and (yield Statement(SQL["alone"]))[0][0]:
        # Read again now that nobody else can be at it.
        pending = yield Statement(SQL["pending"], {"limit": BATCH})
        yield from put_arrivals(world, [Arrival.of(decode(text), at) for _, at, text in pending])
        yield Statement(SQL["clear"], {"numbers": integers([number for number, _, _ in pending])})
        return len(pending)
    return 0


def pending_of(ids: Sequence[str], key: str | None) -> Steps[list[Arrival]]:
    """Requests not yet placed, newest first, for those who ask by id or key."""
    wanted = {"ids": words(ids), "key": stored_or_none(key)}
    found = yield Statement(SQL["pending_of"], wanted)
    return [Arrival.of(decode(text), at) for at, text in found]


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
    # ensure_ascii=False: a lone surrogate must fail when it is bound, not be stored as text nobody can read.
    return stored(json.dumps(values, ensure_ascii=False))


def decode(text: str) -> Request:
    """The request that `encode` wrote."""
    values: dict[str, Any] = json.loads(restored(text))
    guard, keep = values["guard"], values["keep"]
    rebuilt: dict[str, Any] = {
        "run_after": instant_or_none(values["run_after"]),
        "delay": None if values["delay"] is None else duration(values["delay"]),
        "expires_after": None if values["expires_after"] is None else duration(values["expires_after"]),
        "clash": Clash(values["clash"]),
        "overlap": Overlap(values["overlap"]),
        "guard": None if guard is None else Guard(duration(guard[0]), trailing=guard[1]),
        "delivery": Delivery(values["delivery"]),
        "keep": Keep(duration(keep[0]), duration(keep[1])),
        "tick": instant_or_none(values["tick"]),
    }
    return Request(**values | rebuilt)
