"""One reading of the clock per operation, in the units of the tables.

Times are whole microseconds: wall time since 1970 for what is due, boot time for leases.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from duly.clock import Clock

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def stamp(instant: datetime) -> int:
    """A wall time as stored."""
    return (instant - _EPOCH) // _MICROSECOND


def stamp_or_none(instant: datetime | None) -> int | None:
    """A wall time as stored, where there may be none."""
    return None if instant is None else stamp(instant)


def instant(stamped: int) -> datetime:
    """A stored wall time as people know it."""
    return _EPOCH + timedelta(0, 0, stamped)


def instant_or_none(stamped: int | None) -> datetime | None:
    """A stored wall time, where there may be none."""
    return None if stamped is None else instant(stamped)


def span(length: timedelta) -> int:
    """A length of time as stored."""
    return length // _MICROSECOND


def span_or_none(length: timedelta | None) -> int | None:
    """A length of time as stored, where there may be none."""
    return None if length is None else span(length)


def duration(length: int) -> timedelta:
    """A stored length of time."""
    return timedelta(microseconds=length)


def duration_or_none(length: int | None) -> timedelta | None:
    """A stored length of time, where there may be none."""
    return None if length is None else duration(length)


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

    def lease(self) -> dict[str, int | str]:
        """What every judgement of a lease compares with."""
        return {"boot": self.boot, "boot_id": self.boot_id}
