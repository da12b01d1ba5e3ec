"""The outbox in PostgreSQL: its operations, and the driver of the store that performs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

from duly.clock import Clock, SystemClock
from duly.job import Decision, Job, Request
from duly.outbox.contract import Backlog, Batch, Slip, job_on_its_way
from duly.stores.contract import Doorbell, Placed
from duly.stores.drive import Operation, Statement, Steps
from duly.stores.postgres.address import PATIENCE
from duly.stores.postgres.driver import Driver
from duly.stores.postgres.migrate import shipped
from duly.stores.postgres.operations import Errand
from duly.stores.postgres.operations.arrays import integers, restored, stored, words
from duly.stores.postgres.operations.arrivals import arrived, rehearse
from duly.stores.postgres.operations.moment import Moment
from duly.stores.tables.instants import duration, span
from duly.stores.tables.requests import encode
from duly.stores.tables.texts import statements

T = TypeVar("T")

PACKAGE: Final = "duly.outbox.postgres"
MOMENT: Final = "select {clock}, 0, false, null"
"""There are no lanes and no intake here: only the time is asked for."""
SQL: Final = statements("outbox", PACKAGE)


class PostgresOutbox:
    """Requests in a schema of the user's database."""

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        namespace: str = "duly_outbox",
        patience: timedelta = PATIENCE,
    ) -> None:
        self.url = url
        self._clock = None if isinstance(clock, SystemClock) else clock
        self._driver = Driver(
            url,
            namespace=namespace,
            operations=self,
            migrations=shipped(PACKAGE),
            patience=patience,
            moment=MOMENT,
        )

    # driving

    def run(self, operation: Operation[T]) -> T:
        return self._driver.run(operation)

    def run_on(self, connection: Any, operation: Operation[T]) -> T:
        return self._driver.run_on(connection, operation)

    async def arun_on(self, connection: Any, operation: Operation[T]) -> T:
        return await self._driver.arun_on(connection, operation)

    def open(self) -> None:
        self._driver.open()

    def close(self) -> None:
        self._driver.close()

    def pending(self) -> list[str]:
        return self._driver.pending()

    def migrate(self) -> list[str]:
        return self._driver.migrate()

    def describe(self) -> dict[str, str]:
        return self._driver.describe()

    def doorbell(self) -> Doorbell:
        return self._driver.doorbell()

    def absorb(self) -> Operation[int]:
        """Asked for by the driver, of stores; nothing here waits to be placed."""
        return self._operation("absorb", _nothing)

    def forget(self) -> None:
        """Nothing was learnt that could be taken for granted."""

    # slips

    def append(self, requests: Sequence[Request]) -> Operation[list[Placed]]:
        return self._operation("append", lambda moment: _append(moment, requests))

    def waits(self) -> Operation[bool]:
        return self._operation("waits", _waits, writes=False)

    def lease(self, length: timedelta, limit: int) -> Operation[Batch]:
        return self._operation("lease", lambda moment: _lease(moment, length, limit))

    def clear(self, slips: Sequence[Slip]) -> Operation[int]:
        return self._operation("clear", lambda _: _counted("clear", _marks(slips)))

    def release(self, slips: Sequence[Slip]) -> Operation[int]:
        return self._operation("release", lambda _: _counted("release", _marks(slips)))

    def set_aside(self, slip: Slip, reason: str, pause: timedelta) -> Operation[int]:
        mark = {"id": slip.id, "number": slip.number, "reason": stored(reason)}
        return self._operation(
            "set_aside", lambda moment: _counted("set_aside", mark | {"until": moment.now + span(pause)})
        )

    def find(self, job_id: str) -> Operation[Job | None]:
        return self._operation("find", lambda _: _find(job_id), writes=False)

    def withdraw(self, job_id: str) -> Operation[int]:
        return self._operation("withdraw", lambda _: _counted("withdraw", {"job": job_id}))

    def backlog(self) -> Operation[Backlog]:
        return self._operation("backlog", _backlog, writes=False)

    def _operation(
        self, name: str, act: Callable[[Moment], Steps[T]], *, writes: bool = True
    ) -> Operation[T]:
        def steps() -> Steps[T]:
            return (yield from act((yield from Moment.read(self._clock))))

        return Errand(name, steps, writes=writes, may_repeat=True)


def _nothing(_: Moment) -> Steps[int]:
    yield from ()
    return 0


def _append(moment: Moment, requests: Sequence[Request]) -> Steps[list[Placed]]:
    arrivals = [rehearse(arrived(request, moment.now)) for request in requests]
    lines = {
        "offered": moment.now,
        "serials": words([arrival.serial for arrival in arrivals]),
        "jobs": words([request.id for request in requests]),
        "requests": words([stored(encode(request)) for request in requests]),
    }
    yield Statement(SQL["append"], lines)
    return [Placed(request.id, 0, Decision.PENDING) for request in requests]


def _waits(moment: Moment) -> Steps[bool]:
    return bool((yield Statement(SQL["waits"], {"now": moment.now})))


def _lease(moment: Moment, length: timedelta, limit: int) -> Steps[Batch]:
    found = yield Statement(SQL["alone"])
    if not found:
        return Batch("", [])
    outbox, last = found[0]
    # A counter that a restored backup set back must not give a number twice: time has gone on meanwhile.
    last = max(last, moment.now)
    wanted = {"now": moment.now, "until": moment.now + span(length), "last": last, "limit": limit}
    rows = yield Statement(SQL["lend"], wanted)
    if rows:
        yield Statement(SQL["count_on"], {"last": last + len(rows)})
    return Batch(outbox, [_slip(moment.now, *row) for row in sorted(rows)])


def _slip(now: int, slip: int, number: int, job: str, offered_at: int, was_aside: bool, text: str) -> Slip:
    return Slip(slip, number, job, duration(max(0, now - offered_at)), was_aside, restored(text))


def _marks(slips: Sequence[Slip]) -> dict[str, str]:
    return {
        "ids": integers(slip.id for slip in slips),
        "numbers": integers(slip.number for slip in slips),
    }


def _counted(name: str, values: dict[str, Any]) -> Steps[int]:
    return len((yield Statement(SQL[name], values)))


def _find(job_id: str) -> Steps[Job | None]:
    found = yield Statement(SQL["find"], {"job": job_id})
    return job_on_its_way([(offered_at, restored(text)) for offered_at, text in found])


def _backlog(moment: Moment) -> Steps[Backlog]:
    ((waiting, oldest, aside, reason),) = yield Statement(SQL["backlog"])
    age = duration(0 if oldest is None else max(0, moment.now - oldest))
    return Backlog(waiting, age, aside, restored(reason or ""))
