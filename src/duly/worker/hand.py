"""What a worker holds: every claim from the moment it is lent until its settlement is answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from duly.app import AnyTask
from duly.job import Claim, Fence
from duly.run import Binding, Run
from duly.signals import Signal


class Halt(StrEnum):
    """Why a body was told to stop before it ended by itself."""

    LOST = "lost"
    """The lease is gone, or may be: the store will say whether its verdict still counts."""
    CANCELLED = "cancelled"
    HANDED_BACK = "handed back"


class Host(Protocol):
    """Where a run happens: what it says goes there, and so does its wish for a transaction."""

    @property
    def trusts_lease(self) -> Callable[[], bool]: ...
    def tell(self, holding: Holding, signal: Signal, /) -> None: ...
    def bind(self, holding: Holding, /) -> Binding: ...
    def strike(self, holding: Holding, /) -> None: ...


class Holding:
    """A claim in hand, and the run it becomes. Written out, since tens of thousands are made each second."""

    __slots__ = (
        "body",
        "claim",
        "fence",
        "force",
        "halt",
        "has_begun",
        "host",
        "lent_at",
        "run",
        "started",
        "started_at",
        "stop_body",
        "taken",
        "task",
    )

    def __init__(
        self,
        claim: Claim,
        task: AnyTask,
        host: Host | None = None,
        lent_at: datetime | None = None,
        taken: float = 0.0,
        started_at: datetime | None = None,
    ) -> None:
        """`lent_at` is by the store's clock, `taken` the same moment by ours, monotonic.

        Names in the call would take half as long again as all of this.
        """
        self.claim = claim
        self.task = task
        self.host = host
        self.fence = claim.fence
        self.run: Run | None = None
        self.started_at = started_at
        self.started = 0.0  # monotonic, for durations
        self.has_begun = False  # its start was recorded in the store
        self.halt: Halt | None = None
        self.body: asyncio.Task[None] | None = None
        """On the loop, from when it first waits: kept here, since the loop itself would not keep it alive."""
        self.stop_body: Callable[[], None] | None = None
        """Ends the body, where more is to be done than to cancel it; None before it starts and in threads."""
        self.force: Callable[[], object] | None = None
        """Interrupts a thread's body, for the moment before the process ends."""
        self.lent_at = lent_at
        self.taken = taken

    def tell(self, signal: Signal) -> None:
        """Progress or a throttle from the running body."""
        if self.host is not None:
            self.host.tell(self, signal)

    def bind(self) -> Binding:
        """What ties the run to a transaction, for a body that asks for one."""
        assert self.host is not None
        return self.host.bind(self)

    @property
    def is_running(self) -> bool:
        """Its body is at work; one that has ended only waits for its settlement."""
        run = self.run  # once: another thread may let go of it
        return run is not None and run.is_live_here

    @property
    def wait(self) -> float | None:
        """Seconds from due to start, of a first try."""
        return next(iter(waits_of((self,))), None)

    def order(self, halt: Halt) -> None:
        """Tell the run to stop. The first reason counts, except that a lost lease outranks all."""
        if self.halt is None or halt is Halt.LOST:
            self.halt = halt  # before the look at the run: who makes one looks at this after that
        run = self.run  # once: another thread may let go of it
        if run is not None:
            run.is_lost = run.is_lost or halt is Halt.LOST
            run.superseded = run.superseded or halt is Halt.LOST
            run.cancelled = True
        if self.stop_body is not None:
            self.stop_body()
        elif run is not None and run.is_live_here and self.host is not None:
            self.host.strike(self)

    def supersede(self) -> None:
        """A newer request stands: what the run says does not count any more."""
        run = self.run
        if run is not None:
            run.superseded = True

    def stop_by(self, act: Callable[[], None]) -> None:
        """How to end the body from now on. An order that came first is carried out at once."""
        self.stop_body = act
        if self.halt is not None:
            act()


def waits_of(holdings: Iterable[Holding]) -> list[float]:
    """Seconds from due to start. After a first try nobody can say: `due` stays what was asked for.

    Of many at once: jobs that were put together are due together, and a claim lends all of its own together.
    """
    waits: list[float] = []
    lent_at: datetime | None = None
    due: datetime | None = None
    late = 0.0
    for holding in holdings:
        claim = holding.claim
        if holding.lent_at is None or holding.started_at is None:
            continue
        if claim.attempt or claim.crashes or claim.deferrals:
            continue
        if holding.lent_at is not lent_at or claim.due is not due:
            lent_at, due = holding.lent_at, claim.due
            late = (lent_at - due).total_seconds()
        waits.append(max(0.0, late + holding.started - holding.taken))
    return waits


class Hand:
    """All holdings of one worker, safe to touch from any of its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holdings: dict[Fence, Holding] = {}

    def __len__(self) -> int:
        return len(self._holdings)

    def take(self, holdings: list[Holding]) -> None:
        """Claims that were just lent."""
        taken = {holding.fence: holding for holding in holdings}
        with self._lock:
            self._holdings.update(taken)

    def drop(self, fences: Iterable[Fence]) -> None:
        """Claims that were answered or lost."""
        with self._lock:
            for fence in fences:
                holding = self._holdings.pop(fence, None)
                if holding is not None:  # its run speaks of it in turn: let go, and neither waits for gc
                    holding.run = holding.body = None

    def fences(self) -> list[Fence]:
        """What the next beat must renew."""
        with self._lock:
            return list(self._holdings)

    def get(self, fence: Fence) -> Holding | None:
        """The holding behind a fence, if it is still in hand."""
        return self._holdings.get(fence)

    def all(self) -> list[Holding]:
        """A snapshot."""
        with self._lock:
            return list(self._holdings.values())
