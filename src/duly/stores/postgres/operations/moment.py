"""One reading of the clock per operation, in the units of the tables: whole microseconds.

It is the server's clock, read where the transaction begins. A test's clock takes its place, and then has
two hands: wall time for what is due, boot time for leases.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from duly.clock import Clock
from duly.stores.drive import Statement, Steps
from duly.stores.house import Notice, Stage
from duly.stores.tables.instants import instant, stamp

MOMENT: Final = Statement("moment")
"""Asks the driver what it read at the beginning: the time, the newest lane, whose transaction, the door."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When an operation happens: everything in it happens at once."""

    now: int
    boot: int
    newest_lane: int = 0
    is_guest: bool = False
    """In a caller's transaction, whose snapshot may be older than the locks we take in it."""
    notice: Notice | None = None
    """What hangs at the door while everything is being moved."""
    oldest_code: int = 0
    """The lowest level of code that the schema still serves."""

    @classmethod
    def read(cls, clock: Clock | None) -> Steps[Moment]:
        """The server's time, or that of a clock which stands in for it."""
        ((now, newest_lane, is_guest, door),) = yield MOMENT
        oldest_code, hanging = door or (0, None)
        notice = None if hanging is None else Notice(Stage(hanging[0]), *hanging[1:])
        if clock is None:
            return cls(now, now, newest_lane, is_guest, notice, oldest_code)
        return cls(*clock_hands(clock), newest_lane, is_guest, notice, oldest_code)

    @property
    def instant(self) -> datetime:
        """The wall time, for the pure decisions."""
        return instant(self.now)

    def lease_end(self, lease_until: int | None) -> datetime:
        """The end of a lease on the wall clock; one that nobody holds any more has ended by now."""
        left = 0 if lease_until is None else lease_until - self.boot
        return instant(self.now + left)


def clock_hands(clock: Clock) -> tuple[int, int]:
    """Wall time and boot time of a test's clock."""
    return stamp(clock.now()), round(clock.boot() * 1_000_000)
