"""Spans of time as people write them: 90, "2m 30s", "1.5h", timedelta(days=7).

Every duration and due time a user gives passes through here once, at the call where it is written, so
that nothing behind this line ever meets a negative wait, a NaN or a naive datetime.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, TypeAlias

from duly.errors import DefinitionError

Duration: TypeAlias = timedelta | int | float | str

LONGEST: Final = timedelta(days=36_525)  # a century: longer is a unit mixed up, and would overflow dates

_MICROSECONDS: Final = {
    "w": 604_800_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
}
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-zµ]+)\s*")
_WRITTEN: Final = re.compile(rf"(?:{_PART.pattern})+")
_EXAMPLES: Final = 'Write it like "2m 30s", "1.5h", "500ms" or "7d", or give seconds as a number.'
_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)


def duration(value: Duration, *, what: str = "duration", allow_zero: bool = True) -> timedelta:
    """The span that `value` means; `what` names the option in the error."""
    span = _span(value, what)
    if span < timedelta(0):
        raise DefinitionError(f"{what}={_shown(value)} is negative. Give a span of time from now on.")
    if span > LONGEST:
        raise DefinitionError(
            f"{what}={_shown(value)} is longer than 100 years. Check the unit: numbers are seconds."
        )
    if not span and not allow_zero:
        raise DefinitionError(f"{what}={_shown(value)} must be longer than zero. {_EXAMPLES}")
    return span


def moment(value: datetime | Duration, now: datetime, *, what: str = "run_after") -> datetime:
    """An aware datetime as it is; a duration counted from `now`."""
    if not isinstance(value, datetime):
        return now + duration(value, what=what)
    if value.utcoffset() is None:
        raise DefinitionError(
            f"{what}={_shown(value)} has no time zone. Say which: "
            "datetime.now(timezone.utc), or .replace(tzinfo=ZoneInfo('Europe/Paris'))."
        )
    if not _EARLIEST <= value <= _LATEST:
        raise DefinitionError(
            f"{what}={_shown(value)} is outside the years 1970 to 9998. Check how it was computed."
        )
    return value


def describe(span: timedelta) -> str:
    """The shortest spelling that `duration` reads back: "2m 30s"."""
    if span < timedelta(0):
        return f"-{describe(-span)}"
    seconds = span.days * 86_400 + span.seconds
    counts = (
        (seconds // 86_400, "d"),
        (seconds // 3_600 % 24, "h"),
        (seconds // 60 % 60, "m"),
        (seconds % 60, "s"),
    )
    parts = [f"{count}{unit}" for count, unit in counts if count]
    if span.microseconds:
        parts.append(f"{span.microseconds / 1000:g}ms")
    return " ".join(parts) or "0s"


def _span(value: Duration, what: str) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        return _read(value, what)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DefinitionError(f"{what}={_shown(value)} is not a span of time. {_EXAMPLES}")
    if isinstance(value, float) and not math.isfinite(value):
        raise DefinitionError(f"{what}={_shown(value)} is not a finite number of seconds. {_EXAMPLES}")
    try:
        return timedelta(seconds=value)
    except OverflowError:
        raise DefinitionError(
            f"{what}={_shown(value)} is out of range. Check the unit: numbers are seconds."
        ) from None


def _read(text: str, what: str) -> timedelta:
    written = text.strip()
    if len(written) > 100 or not _WRITTEN.fullmatch(written):
        raise DefinitionError(f"{what}={_shown(text)} is not a span of time. {_remedy(written)}")
    microseconds = Decimal(0)
    units: set[str] = set()
    for number, unit in _PART.findall(written):
        if unit not in _MICROSECONDS:
            raise DefinitionError(f"{what}={text!r}: {unit!r} is no unit. Use w, d, h, m, s or ms.")
        if unit in units:
            raise DefinitionError(f"{what}={text!r} gives {unit!r} twice. Add the two up.")
        units.add(unit)
        microseconds += Decimal(number) * _MICROSECONDS[unit]
    return timedelta(microseconds=int(min(microseconds.to_integral_value(), _BEYOND)))


_BEYOND: Final = Decimal(LONGEST // timedelta(microseconds=1) + 1)


def _remedy(written: str) -> str:
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", written):
        return f'Say the unit, "{written}s", or give the number {written} without quotes.'
    return _EXAMPLES


def _shown(value: object) -> str:
    """A quotation that stays short; an int of 5,000 digits has no repr at all."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= 120 else f"{text[:120]}…"
