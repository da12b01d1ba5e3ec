"""The relay: carries what users' transactions left in the outbox to the store, at least once and in order.

Every worker has one, in a thread of its own, and none is needed: an outbox that is away does not hold up the
worker, and a store that is away does not keep anybody from writing to the outbox. A relay that dies between
two steps is survived by the others when its lease ends; one that wakes up late is refused by the store.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, NamedTuple

from duly import failpoints
from duly.app import App
from duly.clock import Clock
from duly.errors import StoreError
from duly.ids import spread
from duly.job import Decision, Request
from duly.outbox.contract import Batch, Outbox, Slip
from duly.stores.contract import Doorbell, Parcel, Placed, Store
from duly.worker.outage import Outage, backoff

log = logging.getLogger("duly.worker")

BATCH: Final = 100
LONGEST_LEASE: Final = timedelta(minutes=1)
"""A batch takes milliseconds. What a dead relay held waits this long at most."""
SHELF: Final = timedelta(minutes=10)
"""How long a request that cannot be delivered is set aside before somebody tries again."""
LONGEST_REASON: Final = 1000
FAREWELL: Final = 3.0
"""Seconds given at the end to a call that hangs: what it leaves undone another relay does."""


class Carried(NamedTuple):
    """A slip that could be read."""

    slip: Slip
    request: Request


@dataclass(slots=True, kw_only=True)
class Relay:
    """Moves requests from one outbox to one store."""

    outbox: Outbox
    store: Store
    lease: timedelta
    poll: timedelta
    fail: Callable[[BaseException], None]
    clock: Clock
    _is_over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _bell: Doorbell | None = None
    _late: int = 0
    """How many of this round stay in the outbox: if that is all of them, the next look may wait."""
    _absence: Outage = field(default_factory=lambda: Outage("the outbox"))
    _refusal: Outage = field(default_factory=lambda: Outage("the store of the outbox"))

    @classmethod
    def of(cls, app: App, fail: Callable[[BaseException], None]) -> Relay | None:
        """The relay of an application; None where it has no outbox."""
        outbox, settings = app.outbox, app.settings
        if outbox is None:
            return None
        lease = min(settings.lease, LONGEST_LEASE)
        return cls(
            outbox=outbox, store=app.store, lease=lease, poll=settings.poll, clock=app.clock, fail=fail
        )

    def start(self) -> None:
        """Carry from now on."""
        self._thread = threading.Thread(target=self._run, name="duly-relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Begin no further round."""
        self._is_over.set()
        if (bell := self._bell) is not None:
            bell.wake()
        if self._thread is not None:
            self._thread.join(FAREWELL)

    def drain(self) -> int:
        """Carry until nothing is left that can be; answers how much that was. Who asks does not wait."""
        moved = 0
        try:
            while just_now := self.carry():
                moved += just_now
        except StoreError as error:
            log.warning("what is left in the outbox stays there for the next worker: %s", error)
        return moved

    # the loop

    def _run(self) -> None:
        failures = 0
        try:
            while not self._is_over.is_set():
                try:
                    if self.carry() < BATCH:
                        self._rest()
                    failures = 0
                except StoreError:
                    self._is_over.wait(backoff(failures, spread()))
                    failures += 1
        except BaseException as error:
            self.fail(error)
        finally:
            if self._bell is not None:
                self._bell.close()

    def _rest(self) -> None:
        """Until Django or SQLAlchemy told of a commit, or until the next look of our own accord."""
        if self._bell is None:
            self._bell = self.outbox.doorbell()
        self._bell.wait(self.poll * (0.75 + spread() / 2))

    # one round

    def carry(self) -> int:
        """Borrow a batch, deliver it, clear it away; answers how many requests were dealt with."""
        asked = self.clock.boot()
        self._late = 0
        batch = self._borrow()
        if not batch.slips:
            return 0
        answered = self.clock.boot()
        carried = [one for slip in batch.slips if (one := self._read(slip)) is not None]
        if self.clock.boot() - asked >= self.lease.total_seconds():
            log.warning("the relay slept past its lease and leaves its batch to the others")
            return 0
        failpoints.reached("before_deliver")
        delivered = self._deliver(batch.outbox, carried, answered)
        failpoints.reached("after_deliver")
        self._clear(delivered)
        return len(batch.slips) - self._late

    def _borrow(self) -> Batch:
        try:
            waits = self.outbox.run(self.outbox.waits())
            batch = self.outbox.run(self.outbox.lease(self.lease, BATCH)) if waits else Batch("", [])
        except StoreError as error:
            self._absence.noted(error)
            raise
        self._absence.over()
        return batch

    def _clear(self, slips: Sequence[Slip]) -> None:
        """If this fails they are delivered again when the lease is over, and the store knows them."""
        try:
            self.outbox.run(self.outbox.clear(slips))
        except StoreError as error:
            self._absence.noted(error)
            raise

    def _deliver(self, outbox: str, carried: Sequence[Carried], since: float) -> list[Slip]:
        """Those that need no more deliveries. The others are set aside, or left to the next loan."""
        try:
            placed = self._send(outbox, carried, since)
        except StoreError as error:
            self._refusal.noted(error)
            self.outbox.run(self.outbox.release([one.slip for one in carried]))
            raise
        except Exception as error:
            if len(carried) == 1:
                self._set_aside(carried[0].slip, error)
                return []
            # One of them is the reason: each is tried alone, so that the others get through.
            return [slip for one in carried for slip in self._deliver(outbox, [one], since)]
        self._refusal.over()
        return self._dealt_with([one.slip for one in carried], placed)

    def _dealt_with(self, slips: Sequence[Slip], placed: Sequence[Placed]) -> list[Slip]:
        """All but those for which we came too late: somebody delivered a newer one of their key meanwhile.

        They are not in the store. Lent anew they get a number of their own turn, unless they were set aside:
        then they have been passed, and stay so.
        """
        late = [
            slip
            for slip, answer in zip(slips, placed, strict=True)
            if answer.decision is Decision.PENDING and not slip.was_aside
        ]
        if late:
            self._late += len(late)
            self.outbox.run(self.outbox.release(late))
        return [slip for slip in slips if slip not in late]

    def _send(self, outbox: str, carried: Sequence[Carried], since: float) -> list[Placed]:
        """The age is never overstated: a job must not be due early."""
        here = timedelta(seconds=self.clock.boot() - since)
        parcels = [Parcel(one.request, one.slip.number, one.slip.age + here) for one in carried]
        if not parcels:
            return []
        placed = self.store.run(self.store.deliver(outbox, parcels))
        self.store.ring()
        return placed

    def _read(self, slip: Slip) -> Carried | None:
        try:
            return Carried(slip, slip.read())
        except Exception as error:  # one bad line must not keep the others from being delivered
            self._set_aside(slip, error)
            return None

    def _set_aside(self, slip: Slip, error: Exception) -> None:
        reason = storable(f"{type(error).__name__}: {error}")
        log.error(
            "request %s cannot be taken from the outbox to the store, and is set aside for %s: %s",
            slip.job,
            SHELF,
            reason,
        )
        self.outbox.run(self.outbox.set_aside(slip, reason, SHELF))


def storable(reason: str) -> str:
    """Any database takes it, and people can read it: an error may quote all of a request, whole or broken."""
    return reason[:LONGEST_REASON].encode("utf-8", "backslashreplace").decode()
