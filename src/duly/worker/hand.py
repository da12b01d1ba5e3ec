"""What a worker holds: every claim from the moment it is lent until its settlement is answered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from duly.app import AnyTask
from duly.job import Claim, Fence
from duly.run import Run


class Halt(StrEnum):
    """Why a body was told to stop before it ended by itself."""

    LOST = "lost"
    """The lease is gone, or may be: the store will say whether its verdict still counts."""
    CANCELLED = "cancelled"
    HANDED_BACK = "handed back"


@dataclass(slots=True, eq=False)
class Holding:
    """A claim in hand, and the run it becomes."""

    claim: Claim
    task: AnyTask
    run: Run | None = None
    started_at: datetime | None = None
    started: float = 0.0
    """Monotonic, for durations."""
    has_begun: bool = False
    """Its start was recorded in the store."""
    halt: Halt | None = None
    stop_body: Callable[[], None] | None = None
    """Ends the body where that is possible; None before it starts and for threads."""
    force: Callable[[], object] | None = None
    """Interrupts a thread's body, for the moment before the process ends."""
    lent_at: datetime | None = None
    """By the store's clock."""
    taken: float = 0.0
    """The same moment by ours, monotonic."""

    @property
    def is_running(self) -> bool:
        """Its body is at work; one that has ended only waits for its settlement."""
        return self.run is not None and self.run.is_live_here

    @property
    def wait(self) -> float | None:
        """Seconds from due to start. After a first try nobody can say: `due` stays what was asked for."""
        claim = self.claim
        is_first = not (claim.attempt or claim.crashes or claim.deferrals)
        if self.lent_at is None or self.started_at is None or not is_first:
            return None
        return max(0.0, (self.lent_at - claim.due).total_seconds() + self.started - self.taken)

    def order(self, halt: Halt) -> None:
        """Tell the run to stop. The first reason counts, except that a lost lease outranks all."""
        if self.halt is None or halt is Halt.LOST:
            self.halt = halt
        if self.run is not None:
            self.run.is_lost = self.run.is_lost or halt is Halt.LOST
            self.run.superseded = self.run.superseded or halt is Halt.LOST
            self.run.cancelled = True
        if self.stop_body is not None:
            self.stop_body()

    def stop_by(self, act: Callable[[], None]) -> None:
        """How to end the body from now on. An order that came first is carried out at once."""
        self.stop_body = act
        if self.halt is not None:
            act()


class Hand:
    """All holdings of one worker, safe to touch from any of its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holdings: dict[Fence, Holding] = {}

    def __len__(self) -> int:
        return len(self._holdings)

    def take(self, holdings: list[Holding]) -> None:
        """Claims that were just lent."""
        with self._lock:
            for holding in holdings:
                self._holdings[holding.claim.fence] = holding

    def drop(self, fences: list[Fence]) -> None:
        """Claims that were answered or lost."""
        with self._lock:
            for fence in fences:
                self._holdings.pop(fence, None)

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
