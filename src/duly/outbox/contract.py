"""What an outbox promises: requests are kept in the user's database until a store has taken them.

A *slip* is one request as it was committed. Relays borrow slips under a lease judged by the outbox's own
clock, deliver them and clear them away. The number under which a slip is borrowed is drawn after its commit,
from one rising counter, by one relay at a time: so numbers follow the order in which requests came to light,
and of two relays with one slip the one that is late has the lower number. That is what the store compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple, Protocol, TypeVar

from duly.job import Job, Request
from duly.stores.contract import Doorbell, Placed
from duly.stores.drive import Operation, Row
from duly.stores.tables.arrivals import Arrival, pending_job
from duly.stores.tables.requests import decode

T = TypeVar("T")


class Slip(NamedTuple):
    """A request on loan to a relay."""

    id: int
    number: int
    job: str
    age: timedelta
    was_aside: bool
    """It has kept the number of an earlier loan, and newer ones may have passed it for good."""
    text: str

    def read(self) -> Request:
        """The request; fails in as many ways as a text can be wrong."""
        return decode(self.text)


def job_on_its_way(rows: Sequence[Row]) -> Job | None:
    """What a slip (the moment of its request, and the request) says about the job it is to become."""
    try:
        return _foreseen(*rows[0]) if rows else None
    except Exception:  # who relays it says so
        return None


def _foreseen(at: int, text: str) -> Job:
    request = decode(text)
    return pending_job(Arrival(request, at, request.lane_of_serial))


class Batch(NamedTuple):
    """What one lease covers, in the order in which it must be delivered."""

    outbox: str
    """Which outbox this is: a name drawn when its tables were made."""
    slips: list[Slip]


class Backlog(NamedTuple):
    """What people want to know."""

    waiting: int
    oldest: timedelta
    """How long ago the oldest was made; zero where there is none."""
    aside: int
    """Slips that could not be delivered, and are tried again now and then."""
    reason: str
    """Why, of one of them."""


class Outbox(Protocol):
    """The whole contract. Operations are values, as those of a store."""

    url: str

    # driving
    def run(self, operation: Operation[T]) -> T: ...
    def run_on(self, connection: Any, operation: Operation[T]) -> T: ...
    async def arun_on(self, connection: Any, operation: Operation[T]) -> T: ...
    def open(self) -> None: ...
    def close(self) -> None: ...
    def pending(self) -> list[str]: ...
    def migrate(self) -> list[str]: ...
    def describe(self) -> dict[str, str]: ...
    def doorbell(self) -> Doorbell: ...

    # slips
    def append(self, requests: Sequence[Request]) -> Operation[list[Placed]]:
        """Write them down, on the caller's connection; nobody waits for anybody."""
        ...

    def waits(self) -> Operation[bool]:
        """Whether there may be something to borrow: a look that writes nothing, for every poll."""
        ...

    def lease(self, length: timedelta, limit: int) -> Operation[Batch]:
        """Borrow the oldest. Of a serial that another relay has in hand nothing is lent, so order stays."""
        ...

    def clear(self, slips: Sequence[Slip]) -> Operation[int]:
        """They are delivered. One that another relay has borrowed meanwhile stays: it finds that out."""
        ...

    def release(self, slips: Sequence[Slip]) -> Operation[int]:
        """They are not delivered: whoever comes next may have them."""
        ...

    def set_aside(self, slip: Slip, reason: str, pause: timedelta) -> Operation[int]:
        """It cannot be delivered. When it is lent again it keeps its number: newer ones have passed it."""
        ...

    def find(self, job_id: str) -> Operation[Job | None]:
        """A job that is still on its way, if its slip can be read."""
        ...

    def withdraw(self, job_id: str) -> Operation[int]:
        """Take it back, unless a relay ever had it in hand: one that is late could still deliver it."""
        ...

    def backlog(self) -> Operation[Backlog]: ...
