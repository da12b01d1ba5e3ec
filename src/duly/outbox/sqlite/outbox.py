"""The outbox in a SQLite file: its operations, and the driver of the store that performs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

from duly.clock import Clock, SystemClock, boot_id
from duly.job import Decision, Job, Request
from duly.outbox.contract import Backlog, Batch, Slip, job_on_its_way
from duly.stores.contract import Placed
from duly.stores.drive import Operation, Statement, Steps
from duly.stores.sqlite.driver import PATIENCE, Driver
from duly.stores.sqlite.migrate import shipped
from duly.stores.sqlite.operations.arrivals import arrived, rehearse
from duly.stores.sqlite.operations.moment import Moment
from duly.stores.tables.instants import duration, span
from duly.stores.tables.requests import encode
from duly.stores.tables.texts import statements

T = TypeVar("T")

PACKAGE: Final = "duly.outbox.sqlite"
SQL: Final = statements("outbox", PACKAGE)


class SqliteOutbox(Driver):
    """Requests in the user's file. Relays run on its machine, as every process that opens it."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        namespace: str = "duly_outbox",
        patience: timedelta = PATIENCE,
    ) -> None:
        self._clock = clock or SystemClock()
        super().__init__(
            url, migrations=shipped(PACKAGE), clock=self._clock, namespace=namespace, patience=patience
        )

    def append(self, requests: Sequence[Request]) -> Operation[list[Placed]]:
        return self._operation("append", lambda moment: _append(moment, requests))

    def waits(self) -> Operation[bool]:
        return self._operation("waits", _waits, writes=False)

    def lease(self, length: timedelta, limit: int) -> Operation[Batch]:
        return self._operation("lease", lambda moment: _lease(moment, length, limit))

    def clear(self, slips: Sequence[Slip]) -> Operation[int]:
        return self._operation("clear", lambda _: _each("clear", slips))

    def release(self, slips: Sequence[Slip]) -> Operation[int]:
        return self._operation("release", lambda _: _each("release", slips))

    def set_aside(self, slip: Slip, reason: str, pause: timedelta) -> Operation[int]:
        def act(moment: Moment) -> Steps[int]:
            until = {"reason": reason, "until": moment.now + span(pause)}
            return (yield from _each("set_aside", [slip], **until))

        return self._operation("set_aside", act)

    def find(self, job_id: str) -> Operation[Job | None]:
        return self._operation("find", lambda _: _find(job_id), writes=False)

    def withdraw(self, job_id: str) -> Operation[int]:
        def act(_: Moment) -> Steps[int]:
            return len((yield Statement(SQL["withdraw"], {"job": job_id})))

        return self._operation("withdraw", act)

    def backlog(self) -> Operation[Backlog]:
        return self._operation("backlog", _backlog, writes=False)

    def _operation(
        self, name: str, act: Callable[[Moment], Steps[T]], *, writes: bool = True
    ) -> Operation[T]:
        return Operation(name, lambda: act(Moment.read(self._clock, boot_id())), writes=writes)


def _append(moment: Moment, requests: Sequence[Request]) -> Steps[list[Placed]]:
    for request in requests:
        rehearse(arrived(request, moment.now))
        line = {
            "offered": moment.now,
            "serial": request.lane_of_serial,
            "job": request.id,
            "request": encode(request),
        }
        yield Statement(SQL["append"], line)
    return [Placed(request.id, 0, Decision.PENDING) for request in requests]


def _waits(moment: Moment) -> Steps[bool]:
    return bool((yield Statement(SQL["waits"], moment.lease() | {"now": moment.now})))


def _lease(moment: Moment, length: timedelta, limit: int) -> Steps[Batch]:
    free = yield Statement(SQL["free"], moment.lease() | {"now": moment.now, "limit": limit})
    ((outbox, last),) = yield Statement(SQL["counter"])
    # A counter that a restored backup set back must not give a number twice: time has gone on meanwhile.
    last = max(last, moment.now)
    terms = {"until": moment.boot + span(length), "boot_id": moment.boot_id}
    slips: list[Slip] = []
    for place, (slip,) in enumerate(free, 1):
        (row,) = yield Statement(SQL["lend"], terms | {"id": slip, "number": last + place})
        slips.append(_slip(moment.now, *row))
    if slips:
        yield Statement(SQL["count_on"], {"last": last + len(slips)})
    return Batch(outbox, slips)


def _slip(now: int, slip: int, number: int, job: str, offered_at: int, was_aside: int, text: str) -> Slip:
    return Slip(slip, number, job, duration(max(0, now - offered_at)), bool(was_aside), text)


def _each(name: str, slips: Sequence[Slip], **values: Any) -> Steps[int]:
    """How many of them were still this relay's."""
    count = 0
    for slip in slips:
        mark = {"id": slip.id, "number": slip.number}
        count += len((yield Statement(SQL[name], mark | values)))
    return count


def _find(job_id: str) -> Steps[Job | None]:
    return job_on_its_way((yield Statement(SQL["find"], {"job": job_id})))


def _backlog(moment: Moment) -> Steps[Backlog]:
    ((waiting, oldest, aside, reason),) = yield Statement(SQL["backlog"])
    age = duration(0 if oldest is None else max(0, moment.now - oldest))
    return Backlog(waiting, age, aside, reason or "")
