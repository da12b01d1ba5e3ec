"""The heartbeat: a thread of its own with nothing else to do, so no body can make it late.

It judges the lease by its own monotonic clock, from before each request: when a renewal fails for so
long that the lease may have run out, the worker stops its bodies itself, before anybody else starts them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from datetime import timedelta

from duly.clock import SystemClock
from duly.errors import SchemaMismatch, StoreBusy, StoreError, StoreMoved
from duly.ids import spread
from duly.job import Fence
from duly.stores.contract import Order, Renewal, Store, WorkerCard
from duly.stores.house import House, Stage
from duly.worker.hand import Halt, Hand, Holding
from duly.worker.outage import Outage, backoff

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
        outage: Outage | None = None,
    ) -> None:
        self._store = store
        self._card = card
        self._lease = lease
        self._hand = hand
        self._fail = fail
        self._is_over = threading.Event()
        self._is_wanted = threading.Event()
        self._trusted_until = 0.0
        self._failures = 0
        self.era: object = object()
        """Another one whenever the lease may have been over. The beat stops what is in hand; whoever takes a
        claim in hand later than he got it compares this with what it was before he asked."""
        self.outage = outage or Outage()
        self._outage_ended = float("-inf")
        """Monotonic time at which the store was last seen to come back."""
        self.on_order: Callable[[Order, Fence], None] | None = None
        self.on_trust: Callable[[], None] | None = None
        """Called when the lease can be trusted again."""
        self.on_overtaken: Callable[[SchemaMismatch | StoreMoved], None] = fail
        self._house = store if isinstance(store, House) else None
        self._clock = SystemClock().boot  # unlike the monotonic clock it goes on while the machine sleeps
        self._thread = threading.Thread(target=self._run, name="duly-beat", daemon=True)
        self._watch = threading.Thread(target=self._run_watch, name="duly-watch", daemon=True)

    def trusts_lease(self) -> bool:
        """False once nobody could say that the lease has not run out, as after a freeze."""
        return self._clock() <= self._trusted_until

    @property
    def margin(self) -> float:
        """Seconds for which the lease can be trusted if no beat succeeds from now on; negative afterwards."""
        return self._trusted_until - self._clock()

    def start(self) -> None:
        """Beat from now on. The first beat was the worker's first call: it never claims without a lease."""
        self._thread.start()
        self._watch.start()

    def hurry(self) -> None:
        """Beat at once: the store is back, and nothing can start until the lease is trusted again."""
        self._is_wanted.set()

    def close(self) -> None:
        """No beat after this returns."""
        self._is_over.set()
        self._is_wanted.set()
        for thread in (self._thread, self._watch):
            if thread.is_alive():
                thread.join()

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self._is_wanted.wait(self._pause())
                self._is_wanted.clear()
                if not self._is_over.is_set():
                    self._try()
        except BaseException as error:
            self._fail(error)

    def _pause(self) -> float:
        """Until the next beat; after one that failed sooner, so that no outage lasts longer for it."""
        step = self._lease.total_seconds() / BEATS_PER_LEASE
        return min(step, backoff(self._failures, spread())) if self._failures else step

    def _run_watch(self) -> None:
        """A renewal that hangs must not keep us from noticing that the lease is over."""
        while not self._is_over.wait(max(0.01, self._trusted_until - self._clock())):
            if not self.trusts_lease():
                self._fence()
                self._is_over.wait(self._lease.total_seconds() / BEATS_PER_LEASE)

    def _try(self) -> None:
        try:
            if not self.beat().is_at_home:
                self._store.check_schema()
                self._check_house()
        except (SchemaMismatch, StoreMoved) as error:
            self.on_overtaken(error)
        except StoreBusy:
            # On SQLite somebody holds the one write lock: nobody else can take our jobs meanwhile, and
            # once it is free, those who are alive renew before anybody takes over.
            self._outage_ended = float("inf")
            self._trusted_until = self._clock() + trusted(self._lease)
        except StoreError as error:
            self._failures += 1
            self.outage.noted(error)
            self._outage_ended = float("inf")
            if not self.trusts_lease():
                self._fence()

    def _check_house(self) -> None:
        """Raise where everything in the store is being carried, or was carried, to another."""
        notice = None if self._house is None else self._house.run(self._house.notice())
        if notice is not None and notice.stage is not Stage.ARRIVING:
            raise StoreMoved(notice.other)

    def beat(self) -> Renewal:
        """One renewal, and what it tells us about each claim."""
        asked = self._clock()
        fences = self._hand.fences()
        renewal = self._store.run(self._store.renew(self._card, fences, self._lease))
        self._renewed(asked)
        self._stop_lost(renewal.lost)
        for fence, order in renewal.orders.items():
            self._obey(fence, order)
        return renewal

    def _renewed(self, asked: float) -> None:
        had_trust = self.trusts_lease()
        if not had_trust:
            self.era = object()  # first: from here on the lease is trusted again
        self._trusted_until = asked + trusted(self._lease)
        self._failures = 0
        self.outage.over()
        if self._outage_ended == float("inf"):
            self._outage_ended = time.monotonic()
        if not had_trust and self.on_trust is not None:
            self.on_trust()

    def may_take_over(self, now: float) -> bool:
        """Whether those who are alive have had the time to renew since the store was last away.

        Where it never was, they have: `now` is monotonic, and may begin with the machine.
        """
        return now - self._outage_ended > self._lease.total_seconds() / 3

    def _obey(self, fence: Fence, order: Order) -> None:
        holding = self._hand.get(fence)
        if order is Order.CANCEL and holding is not None and holding.halt is None:
            log.warning("job %s (%s) is cancelled: stopping its run", holding.claim.id, holding.claim.task)
            holding.order(Halt.CANCELLED)
        if holding is not None:
            holding.supersede()
        if self.on_order is not None:
            self.on_order(order, fence)

    def _stop_lost(self, lost: Collection[Fence]) -> None:
        held = [holding for fence in lost if (holding := self._hand.get(fence)) is not None]
        if stopped := _stop(held):
            log.warning("the lease of %s was lost: stopping", stopped)

    def _fence(self) -> None:
        """The lease may have run out: stop before somebody else starts."""
        self.era = object()  # before the look at what is in hand: who comes later sees this
        if stopped := _stop(self._hand.all()):
            log.error("the lease of %s was not renewed in time: stopping", stopped)


def _stop(holdings: Collection[Holding]) -> str:
    """Tell those that were not told yet, and name them in a few words: an outage may stop hundreds."""
    new = [holding for holding in holdings if holding.halt is None]
    told = [holding for holding in new if holding.is_running]
    for holding in new:
        holding.order(Halt.LOST)
    if not told:
        return ""
    first = f"job {told[0].claim.id} ({told[0].claim.task})"
    return first if len(told) == 1 else f"{len(told)} jobs, {first} among them,"
