"""Requests on their way into duly_job: when each was made, and the columns it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, NamedTuple

from duly.job import Request
from duly.stores.tables.instants import instant_or_none, span, span_or_none, stamp, stamp_or_none

ROOM: Final = 2**62
"""Half of what a column holds, so that a time and a length can be added."""


class Arrival(NamedTuple):
    """A request and the moment it was made: delays, windows and expiry count from there."""

    request: Request
    at: int

    @property
    def due(self) -> int:
        """Absolute, relative to the store's clock, or at once."""
        request = self.request
        if request.run_after is not None:
            return stamp(request.run_after)
        return self.at if request.delay is None else self.at + span(request.delay)

    @property
    def expires_at(self) -> int | None:
        """When nobody wants it any more."""
        after = self.request.expires_after
        return None if after is None else self.at + span(after)


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
    guard = arrival.request.guard
    window = None if guard is None else arrival.at + span(guard.window)
    for moment in (arrival.due, arrival.expires_at, window):
        instant_or_none(moment)  # who reads the job must be able to say when
    for value in columns(arrival).values():
        if isinstance(value, str):
            value.encode()
        elif isinstance(value, int) and abs(value) >= ROOM:
            raise OverflowError(f"{value} is more than can be stored")
    return arrival


_shape: Final = attrgetter(
    *(field.name for field in fields(Request) if field.name not in ("id", "arguments"))
)


def are_alike(arrivals: Sequence[Arrival]) -> bool:
    """Whether they differ in id and arguments only."""
    first, at = arrivals[0]
    shape = _shape(first)
    return all(other.at == at and _shape(other.request) == shape for other in arrivals)
