"""Requests on their way into duly_job: when each was made, and the columns it becomes."""

from __future__ import annotations

from typing import Any, Final

from duly.job import Request
from duly.stores.tables.arrivals import Arrival
from duly.stores.tables.instants import span, span_or_none, stamp_or_none

ROOM: Final = 2**62
"""Half of what a column holds, so that a time and a length can be added."""


def arrived(request: Request, at: int) -> Arrival:
    """A request as it comes."""
    return Arrival(request, at, request.lane_of_serial)


def columns(arrival: Arrival, *, due: int | None = None, is_parked: bool = False) -> dict[str, Any]:
    """The columns of a new job, in the order in which `insert_each` reads them."""
    request = arrival.request
    return {
        "id": request.id,
        "arguments": request.arguments,
        "task": request.task,
        "queue": request.queue,
        "rank": -request.priority,
        "due": arrival.due if due is None else due,
        "created_at": arrival.at,
        "key": request.key,
        "serial": request.lane_of_serial,
        "per_key": request.per_key,
        "overlap": request.overlap,
        "delivery": request.delivery,
        "perpetual": int(request.perpetual),
        "keep_done": span(request.keep.done),
        "keep_failed": span(request.keep.failed),
        "expires_at": arrival.expires_at,
        "expires_after": span_or_none(request.expires_after),
        "tick": stamp_or_none(request.tick),
        "context": request.context,
        "is_parked": int(is_parked),
    }


def rehearse(arrival: Arrival) -> Arrival:
    """Fail now, alone, rather than in the statement that stores it together with others."""
    arrival.check_times()
    for value in columns(arrival).values():
        if isinstance(value, str):
            value.encode()
        elif isinstance(value, int) and abs(value) >= ROOM:
            raise OverflowError(f"{value} is more than can be stored")
    return arrival
