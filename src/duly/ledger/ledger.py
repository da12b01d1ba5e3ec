"""`Ledger`: receipts in the user's database, by which a function has its effect once per execution id.

The queue that delivers may be anything: Duly on Redis, RQ, Celery, a loop over a list. It may deliver twice,
late, or not at all.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from duly import codec
from duly.durations import Duration, duration
from duly.errors import BadRequest, DefinitionError
from duly.ids import new_id, new_nonce
from duly.ledger import migrate
from duly.ledger.beat import Beat
from duly.ledger.operations import Operations, refusal
from duly.ledger.places import database_at
from duly.ledger.sweep import Broom, Deliver, Sweeper, pause, sweep_calmly
from duly.ledger.terms import Terms, terms
from duly.ledger.values import HandOver, Issued, Mark, ReceiptState, ReceiptView, Refused, Swept
from duly.stores.drive import Operation

log = logging.getLogger("duly.ledger")

T = TypeVar("T")

LONGEST_ID: Final = 300


class Ledger:
    """Receipts in the database at `place`: a URL, SQLAlchemy's Engine or sessionmaker, "django:default"."""

    def __init__(  # noqa: PLR0913  each has a default, and a name at the call
        self,
        place: Any,
        *,
        namespace: str = "duly",
        lease: Duration = "30s",
        interval: Duration = "15s",
        lost_after: Duration | None = None,
        redeliver_after: Duration = "5m",
        max_hand_overs: int = 3,
        keep_for: Duration = "24h",
        patience: Duration = "10s",
    ) -> None:
        self.terms: Terms = terms(
            lease=lease,
            interval=interval,
            lost_after=lost_after,
            redeliver_after=redeliver_after,
            max_hand_overs=max_hand_overs,
            keep_for=keep_for,
        )
        self.database = database_at(place, namespace, duration(patience, what="patience", allow_zero=False))
        self.operations = Operations(self.database.dialect, self.terms)
        self.beat = Beat(self.run_within, self.operations, self.terms.lease)
        self._broom = Broom(self.run, self.operations, self.terms)
        self._deliver: Deliver | None = None
        self._opening = threading.Lock()
        self._is_open = False

    def __repr__(self) -> str:
        return f"<Ledger in {self.database.shown}>"

    # Opening and closing.

    def open(self) -> None:
        """Make the tables if need be, in a transaction of our own. The first use does it too."""
        with self._opening:
            if self._is_open:
                return
            self.database.prepare()
            if not self.database.run(migrate.is_current(self.database.dialect, self.database.shown)):
                self.database.run(migrate.expand(self.database.dialect, self.database.shown))
            self._is_open = True

    def migrate(self) -> list[str]:
        """Apply every missing step of the schema, those that take something away included."""
        self.database.prepare()
        return self.database.run(migrate.contract(self.database.dialect, self.database.shown))

    def close(self) -> None:
        """Close idle connections; the next use opens them again."""
        self.database.close()

    def run(self, operation: Operation[T]) -> T:
        """Perform an operation in a short transaction of its own."""
        self._ready()
        return self.database.run(operation)

    def run_within(self, operation: Operation[T], patience: timedelta) -> T:
        """The same with a patience of its own."""
        return self.database.run(operation, patience)

    def _ready(self) -> None:
        if not self._is_open:
            self.open()

    # Issuing and handing over.

    def issue(
        self,
        name: str | Callable[..., Any],
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        execution_id: str | UUID | None = None,
        connection: Any = None,
    ) -> Issued:
        """A pending receipt: in the caller's transaction, or in one of its own and then handed over at once.

        After the commit of a `connection` of yours, call `deliver`; if nobody does, the sweep will.
        """
        operation = self._issue(name, args, kwargs, execution_id)
        self._ready()
        if connection is not None:
            return self.database.run_on(connection, operation)
        issued = self.database.run(operation)
        if issued.created and self._deliver is not None:
            self.database.once_committed(lambda: self.deliver(issued.id))
        return issued

    async def aissue(
        self,
        name: str | Callable[..., Any],
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        execution_id: str | UUID | None = None,
        connection: Any = None,
    ) -> Issued:
        """The same without holding up the event loop."""
        if connection is None:
            return await asyncio.to_thread(self.issue, name, args, kwargs, execution_id=execution_id)
        await asyncio.to_thread(self._ready)
        return await self.database.arun_on(connection, self._issue(name, args, kwargs, execution_id))

    def _issue(
        self,
        name: str | Callable[..., Any],
        args: Iterable[Any],
        kwargs: Mapping[str, Any] | None,
        execution_id: str | UUID | None,
    ) -> Operation[Issued]:
        payload = codec.pack(tuple(args), dict(kwargs or {}))
        receipt_id = new_id() if execution_id is None else checked_id(execution_id)
        return self.operations.issue(receipt_id, _name_of(name), payload)

    def hand_over(self, deliver: Deliver) -> Deliver:
        """Register how a receipt reaches a worker: called with a `HandOver`, after the commit."""
        self._deliver = deliver
        return deliver

    def deliver(self, execution_id: str | UUID) -> bool:
        """Hand over what was issued and committed, unless somebody did. False: the sweep has to see to it."""
        deliver = self._deliver
        if deliver is None:
            raise DefinitionError(
                "Nobody said how to hand receipts over: register it with @ledger.hand_over."
            )
        receipt_id = checked_id(execution_id)
        reserved = self.run(self.operations.reserve_first(receipt_id))
        view = None if reserved is None else self.get(receipt_id)
        if reserved is None or view is None or view.payload is None:
            return False
        return self._broom.send(HandOver(view.id, view.name, view.payload, 1), reserved, deliver)

    async def adeliver(self, execution_id: str | UUID) -> bool:
        """The same without holding up the event loop."""
        return await asyncio.to_thread(self.deliver, execution_id)

    # Sweeping.

    def sweep(self, *, hand_over: Deliver | None = None, limit: int = 1000) -> Swept:
        """Once: hand over what is due, exhaust what was handed over too often, prune what is old."""
        self._ready()
        swept = self._broom.sweep(hand_over or self._deliver, limit)
        self.database.tend()
        return swept

    async def asweep(self, *, hand_over: Deliver | None = None, limit: int = 1000) -> Swept:
        """The same without holding up the event loop."""
        return await asyncio.to_thread(self.sweep, hand_over=hand_over, limit=limit)

    def keep_sweeping(self, interval: Duration | None = None) -> Sweeper:
        """Sweep again and again in a thread, until `stop()` or the end of the `with` block."""
        self._ready()
        return Sweeper(self.sweep, self._interval(interval))

    async def akeep_sweeping(self, interval: Duration | None = None) -> None:
        """Sweep again and again until cancelled, without holding up the event loop."""
        every = self._interval(interval)
        while True:
            await asyncio.to_thread(sweep_calmly, self.sweep)
            await asyncio.sleep(pause(every))

    def _interval(self, given: Duration | None) -> timedelta:
        return self.terms.interval if given is None else duration(given, what="interval", allow_zero=False)

    # Looking and acting.

    def get(self, execution_id: str | UUID) -> ReceiptView | None:
        """A receipt as it stands; None when there is none, or no longer."""
        return self.run(self.operations.look(checked_id(execution_id)))

    def list(self, state: str = "exhausted", *, after: str = "", limit: int = 100) -> list[ReceiptView]:
        """Receipts in a state, by id; `after` continues behind the last one seen."""
        try:
            wanted = ReceiptState(state)
        except ValueError:
            known = ", ".join(ReceiptState)
            raise BadRequest(f"No receipt is {state!r}. The states are {known}.") from None
        return self.run(self.operations.find(wanted, after, limit))

    def count(self) -> dict[ReceiptState, int]:
        """How many receipts are in each state."""
        return self.run(self.operations.count())

    def retry(self, execution_id: str | UUID) -> bool:
        """Make an exhausted receipt pending again: the next sweep hands it over. False if it is not one."""
        return self.run(self.operations.retry(checked_id(execution_id)))

    async def aget(self, execution_id: str | UUID) -> ReceiptView | None:
        """`get`, without holding up the event loop."""
        return await asyncio.to_thread(self.get, execution_id)

    # What the guard asks for.

    def claim(self, receipt_id: str, *, makes_as: str | None) -> Mark | Refused:
        """Mark a receipt as ours. It is looked at first: a duplicate is turned away without a write."""
        seen = self.run(self.operations.look(receipt_id))
        if seen is not None or makes_as is None:
            refused = refusal(seen)
            if refused is not None:
                return refused
        return self.run(self.operations.claim(receipt_id, new_nonce(), makes_as=makes_as))


def checked_id(given: str | UUID) -> str:
    """An execution id that every database takes."""
    text = given if isinstance(given, str) else str(given)
    is_text = type(given) in (str, UUID)
    if not is_text or not 0 < len(text) <= LONGEST_ID or not text.isprintable():
        raise BadRequest(
            f"{given!r} is no execution id. Use a UUID, or 1 to {LONGEST_ID} printable characters."
        )
    return text


def _name_of(given: str | Callable[..., Any]) -> str:
    found = given if isinstance(given, str) else getattr(given, "receipt_name", None)
    if not isinstance(found, str) or not found or "\0" in found:
        raise BadRequest(f"{given!r} is no name for a receipt. Pass text, or a function that is guarded.")
    return found
