"""Requests on their way into the tables, each with the moment it was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Final, NamedTuple

from duly.bundle import Bundle
from duly.job import Job, Request, State
from duly.stores.contract import Selection
from duly.stores.tables.instants import instant, instant_or_none, span, stamp


class Arrival(NamedTuple):
    """A request and the moment it was made: delays, windows and expiry count from there."""

    request: Request
    at: int
    serial: str | None
    """What must not overlap, as the tables name it."""

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

    @property
    def window_ends_at(self) -> int | None:
        """When the duplicate guard that it opens is over."""
        guard = self.request.guard
        return None if guard is None else self.at + span(guard.window)

    def check_times(self) -> None:
        """Who reads the job must be able to say when."""
        for moment in (self.due, self.expires_at, self.window_ends_at):
            instant_or_none(moment)


_shape: Final = attrgetter(
    *(field.name for field in fields(Request) if field.name not in ("id", "arguments"))
)


def are_alike(arrivals: Sequence[Arrival]) -> bool:
    """Whether they differ in id and arguments only."""
    first, at, _ = arrivals[0]
    shape = _shape(first)
    return all(other.at == at and _shape(other.request) == shape for other in arrivals)


def bundled(requests: Sequence[Request]) -> Bundle | None:
    """Requests that differ in id and arguments only, as such; None for others, and where ids are the same."""
    if not isinstance(requests, Bundle):
        shapes = {_shape(request) for request in requests}
        if len(shapes) != 1:
            return None
        ids = [request.id for request in requests]
        requests = Bundle(requests[0], ids, [request.arguments for request in requests])
    return requests if requests.ids and requests.is_distinct else None


# --- as others see them until they are placed -----------------------------------------------------


def is_selected(arrival: Arrival, selection: Selection) -> bool:
    """A committed request is no secret, even before the engine has placed it."""
    request = arrival.request
    return (
        (not selection.ids or request.id in selection.ids)
        and (selection.key is None or request.key == selection.key)
        and (not selection.tasks or request.task in selection.tasks)
        and (not selection.states or State.WAITING in selection.states)
        and (not selection.queues or request.queue in selection.queues)
        and not selection.error
        and selection.fingerprint is None
    )


def pending_job(arrival: Arrival) -> Job:
    """The job that it will be, as far as that is known."""
    request, due = arrival.request, instant(arrival.due)
    return Job(
        id=request.id,
        task=request.task,
        queue=request.queue,
        priority=request.priority,
        key=request.key,
        serial=request.lane_of_serial,
        generation=0,
        state=State.WAITING,
        ready_at=due,
        due=due,
        epoch=0,
        attempt=0,
        crashes=0,
        deferrals=0,
        cycle=0,
        arguments=request.arguments,
        created_at=instant(arrival.at),
        reason="pending",
        expires_at=instant_or_none(arrival.expires_at),
        tick=request.tick,
        delivery=request.delivery,
        context=request.context,
    )
