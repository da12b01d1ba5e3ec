"""Requests on their way into the tables: when each was made, and the columns it becomes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from duly.job import Request
from duly.stores.postgres.operations.arrays import booleans, integers, stored, stored_or_none, words
from duly.stores.postgres.operations.lanes import Book, Track
from duly.stores.postgres.operations.world import digest
from duly.stores.tables.arrivals import Arrival
from duly.stores.tables.instants import span, span_or_none, stamp_or_none

SMALL: Final = 2**15
INTEGER: Final = 2**31
LONGEST: Final = 2**62
"""A length that can be added to a time and still be stored."""


def arrived(request: Request, at: int) -> Arrival:
    """A request as it comes."""
    name = request.lane_of_serial
    return Arrival(request, at, None if name is None else digest(name))


def track_of(request: Request) -> Track:
    """The lane it waits in."""
    return Track(request.queue, request.task, request.priority)


def keyed(arrivals: Iterable[Arrival]) -> set[str]:
    """The serials that a batch speaks of."""
    return {serial for arrival in arrivals if (serial := arrival.serial) is not None}


def columns(arrival: Arrival, book: Book, *, due: int | None = None) -> dict[str, Any]:
    """The columns of a new job."""
    request = arrival.request
    return {
        "due": arrival.due if due is None else due,
        "created_at": arrival.at,
        "keep_done": span(request.keep.done),
        "keep_failed": span(request.keep.failed),
        "expires_at": arrival.expires_at,
        "expires_after": span_or_none(request.expires_after),
        "tick": stamp_or_none(request.tick),
        "lane": book.number(track_of(request)),
        "per_key": request.per_key,
        "perpetual": request.perpetual,
        "serial": arrival.serial,
        "overlap": request.overlap,
        "delivery": request.delivery,
        "id": request.id,
        "key": stored_or_none(request.key),
        "chain": stored_or_none(request.serial),
        "context": stored(request.context),
        "arguments": stored(request.arguments),
    }


def rehearse(arrival: Arrival) -> Arrival:
    """Fail now, alone, rather than in the statement that stores it together with others."""
    request = arrival.request
    arrival.check_times()
    for text in (request.id, request.task, request.queue, request.key, request.arguments, request.context):
        (text or "").encode()
    if "\0" in request.id:
        raise ValueError("its id has a zero character in it")
    if max(span(request.keep.done), span(request.keep.failed)) >= LONGEST:
        raise OverflowError(f"{request.keep} is longer than can be stored")
    if not -SMALL <= request.priority < SMALL or not -INTEGER <= request.per_key < INTEGER:
        raise OverflowError(f"{request.priority} or {request.per_key} is more than can be stored")
    return arrival


_NUMBERS: Final = (
    "due",
    "created_at",
    "keep_done",
    "keep_failed",
    "expires_at",
    "expires_after",
    "tick",
    "lane",
    "per_key",
)


def arrays(arrivals: Sequence[Arrival], book: Book) -> dict[str, str]:
    """The columns of many new jobs, each an array."""
    made = [columns(arrival, book) for arrival in arrivals]
    given = {name: [job[name] for job in made] for name in made[0]}
    return {name: _array(name, values) for name, values in given.items()}


def _array(name: str, values: list[Any]) -> str:
    if name in _NUMBERS:
        return integers(values)
    return booleans(values) if name == "perpetual" else words(values)
