"""Times as tables hold them: whole microseconds, since 1970 for a moment on the wall."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def stamp(instant: datetime) -> int:
    """A wall time as stored."""
    return (instant - EPOCH) // _MICROSECOND


def stamp_or_none(instant: datetime | None) -> int | None:
    """A wall time as stored, where there may be none."""
    return None if instant is None else stamp(instant)


def instant(stamped: int) -> datetime:
    """A stored wall time as people know it."""
    return EPOCH + timedelta(0, 0, stamped)


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
