"""Moments and spans as the scripts count them: whole microseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def stamp(at: datetime) -> int:
    """Microseconds since 1970."""
    return (at - EPOCH) // _MICROSECOND


def stamp_or_false(at: datetime | None) -> int | bool:
    """Absent values travel as false: in Lua a null of JSON is not nil."""
    return False if at is None else (at - EPOCH) // _MICROSECOND


def span(length: timedelta) -> int:
    """Microseconds."""
    return length // _MICROSECOND


def span_or_false(length: timedelta | None) -> int | bool:
    """Microseconds, or false for none."""
    return False if length is None else length // _MICROSECOND


def instant(microseconds: int) -> datetime:
    """The moment a stamp means."""
    return EPOCH + timedelta(microseconds=microseconds)


def instant_or_none(microseconds: int | None) -> datetime | None:
    """The moment, where there is one."""
    return None if microseconds is None else EPOCH + timedelta(microseconds=microseconds)
