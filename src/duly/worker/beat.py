"""The heartbeat: a thread of its own with nothing else to do, so no body can make it late.

It judges the lease by its own monotonic clock, from before each request: when a renewal fails for so
long that the lease may have run out, the worker stops its bodies itself, before anybody else starts them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from duly.clock import SystemClock
from duly.errors import SchemaMismatch, StoreBusy, StoreError
from duly.job import Fence
from duly.stores.contract import Order, Store, WorkerCard
from duly.worker.hand import Halt, Hand

log = logging.getLogger("duly.worker")

BEATS_PER_LEASE = 4


def trusted(lease: timedelta) -> float:
    """Seconds a renewed lease is trusted for: bodies must be stopped and children dead before its end."""
    seconds = lease.total_seconds()
    return seconds - min(1.0 + seconds / 10, seconds * 0.3)


def stop_grace(lease: timedelta) -> timedelta:
    """What a child process gets to end its body; within what `trusted` leaves of the lease."""
    return min(timedelta(seconds=1), lease / 10)


class Heartbeat:
    """Renews the lease of everything in hand."""

    def __init__(
        self,
        *,
        store: Store,
        card: WorkerCard,
        lease: timedelta,
        hand: Hand,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._store = store
        self._card = card
        self._lease = lease
        self._hand = hand
        self._fail = fail
        self._is_over = threading.Event()
        self._trusted_until = 0.0
        self.outage_ended = 0.0
        """Monotonic time at which the store was last seen to come back."""
        self.on_order: Callable[[Order, Fence], None] | None = None
        self.on_overtaken: Callable[[SchemaMismatch], None] = fail
        self._clock = SystemClock().boot  # unlike the monotonic clock it goes on while the machine sleeps
        self._thread = threading.Thread(target=self._run, name="duly-beat", daemon=True)
        self._watch = threading.Thread(target=self._run_watch, name="duly-watch", daemon=True)

    def trusts_lease(self) -> bool:
        """False once nobody could say that the lease has not run out, as after a freeze."""
        return self._clock() <= self._trusted_until

    def start(self, is_stopping: threading.Event) -> None:
        """The first beat is done here, so that a worker never claims without a lease."""
        wait = 0.05
        while not is_stopping.is_set():
            try:
                self.beat()
                break
            except SchemaMismatch:
                raise
            except StoreError as error:
                log.warning("the store is away, waiting for it: %s", error)
                is_stopping.wait(wait := min(2.0, wait * 2))
        self._thread.start()
        self._watch.start()

    def close(self) -> None:
        """No beat after this returns."""
        self._is_over.set()
        for thread in (self._thread, self._watch):
            if thread.is_alive():
                thread.join()

    def _run(self) -> None:
        step = self._lease.total_seconds() / BEATS_PER_LEASE
        try:
            while not self._is_over.wait(step):
                self._try()
        except BaseException as error:
            self._fail(error)

    def _run_watch(self) -> None:
        """A renewal that hangs must not keep us from noticing that the lease is over."""
        while not self._is_over.wait(max(0.01, self._trusted_until - self._clock())):
            if not self.trusts_lease():
                self._fence()
                self._is_over.wait(self._lease.total_seconds() / BEATS_PER_LEASE)

    def _try(self) -> None:
        try:
            self.beat()
            self._store.check_schema()
        except SchemaMismatch as error:
            self.on_overtaken(error)
        except StoreBusy:
            # On SQLite somebody holds the one write lock: nobody else can take our jobs meanwhile, and
            # once it is free, those who are alive renew before anybody takes over.
            self.outage_ended = float("inf")
            self._trusted_until = self._clock() + trusted(self._lease)
        except StoreError as error:
            log.warning("lease could not be renewed: %s", error)
            self.outage_ended = float("inf")
            if not self.trusts_lease():
                self._fence()

    def beat(self) -> None:
        """One renewal, and what it tells us about each claim."""
        asked = self._clock()
        fences = self._hand.fences()
        renewal = self._store.run(self._store.renew(self._card, fences, self._lease))
        self._trusted_until = asked + trusted(self._lease)
        if self.outage_ended == float("inf"):
            self.outage_ended = time.monotonic()
        for fence in renewal.lost:
            self._order(fence, Halt.LOST)
        for fence, order in renewal.orders.items():
            self._obey(fence, order)

    def _obey(self, fence: Fence, order: Order) -> None:
        if order is Order.CANCEL:
            self._order(fence, Halt.CANCELLED)
        holding = self._hand.get(fence)
        if holding is not None and holding.run is not None:
            holding.run.superseded = True
        if self.on_order is not None:
            self.on_order(order, fence)

    def _order(self, fence: Fence, halt: Halt) -> None:
        holding = self._hand.get(fence)
        if holding is not None and holding.halt is None:
            log.warning("job %s (%s) is %s: stopping its run", holding.claim.id, holding.claim.task, halt)
            holding.order(halt)

    def _fence(self) -> None:
        """The lease may have run out: stop before somebody else starts."""
        for holding in self._hand.all():
            if holding.halt is None:
                log.error(
                    "job %s (%s): lease not renewed in time, stopping", holding.claim.id, holding.claim.task
                )
                holding.order(Halt.LOST)
