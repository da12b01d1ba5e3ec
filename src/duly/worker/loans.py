"""Loans: what the store lent the last time, packed as it came, until there is time to take it in hand.

While nobody asks it anything, the store idles. So the next message goes out first, and what the last brought
is unpacked and started while the store is at work. Touched by the pump's thread alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from duly import failpoints
from duly.app import AnyTask
from duly.kinds import periodic
from duly.stores.contract import Claimed
from duly.worker.beat import Heartbeat
from duly.worker.bench import Bench
from duly.worker.hand import Halt, Hand, Holding


class Packed(NamedTuple):
    """What one turn lent."""

    claimed: Claimed
    taken: float
    """When, monotonic."""
    era: object
    """The beat's, from before they were asked for."""


class Loans:
    """On their way from the store to the bench.

    No order reaches what is packed, since it is in no hand. So it stays so no longer than it takes to send a
    message, and whether the lease was over meanwhile is looked at when it is unpacked.
    """

    def __init__(self, tasks: Mapping[str, AnyTask], hand: Hand, bench: Bench, beat: Heartbeat) -> None:
        self._tasks = tasks
        self._hand = hand
        self._bench = bench
        self._beat = beat
        self._packed: Packed | None = None

    def arrive(self, claimed: Claimed, *, taken: float, era: object, bodies: int) -> None:
        """So many of them are for the bench; schedules are for nobody there."""
        self._packed = Packed(claimed, taken, era)
        self._bench.expect(bodies)
        if failpoints.armed is not None:  # not later, in the middle of a message or of somebody's transaction
            self.unpack()

    def start(self) -> None:
        """What was lent and what waits, as far as slots are free."""
        self.unpack()
        self._bench.advance()

    def unpack(self) -> None:
        """Take it in hand. What was lost before that is ended, and not started."""
        if self._packed is None:
            return
        (claimed, taken, era), self._packed = self._packed, None
        tasks, bench, now = self._tasks, self._bench, claimed.now
        holdings = [
            Holding(claim, tasks[claim.task], bench, now, taken)
            for claim in claimed.claims
            if claim.queue != periodic.QUEUE
        ]
        self._hand.take(holdings)
        if self._beat.era is not era:
            for holding in holdings:
                holding.order(Halt.LOST)
        if failpoints.armed is not None:
            for holding in holdings:
                failpoints.reached("after_claim", holding.claim.task)
        bench.keep(holdings)
