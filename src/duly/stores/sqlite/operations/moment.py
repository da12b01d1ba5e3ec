"""One reading of the clock per operation, in the units of the tables.

Times are whole microseconds: wall time since 1970 for what is due, boot time for leases.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from duly.clock import Clock
from duly.stores.tables.instants import instant, stamp


@dataclass(frozen=True, slots=True)
class Moment:
    """When an operation happens: everything in it happens at once."""

    now: int
    boot: int
    boot_id: str

    @classmethod
    def read(cls, clock: Clock, boot_id: str) -> Moment:
        """Ask the clock, once."""
        return cls(stamp(clock.now()), round(clock.boot() * 1_000_000), boot_id)

    @property
    def instant(self) -> datetime:
        """The wall time, for the pure decisions."""
        return instant(self.now)

    def lease_end(self, lease_until: int | None) -> datetime:
        """The end of a lease on the wall clock; one of another boot, or of nobody, has ended by now."""
        left = 0 if lease_until is None else lease_until - self.boot
        return instant(self.now + left)

    def lease(self) -> dict[str, int | str]:
        """What every judgement of a lease compares with."""
        return {"boot": self.boot, "boot_id": self.boot_id}
