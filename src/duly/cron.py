"""A cron line, walked through the calendar of a time zone in either direction.

The line is read by cronsim. The walk is ours, because a schedule needs more than the next match: the
number of ticks in years of downtime without visiting each, the newest few of them, and the same answer
wherever the walk starts.

What a change of clocks does to a line:

- one with a fixed hour and minute ("30 2 * * *") fires once for each time on the calendar: right after
  a gap that swallowed it, and only the first time when an hour comes twice;
- one whose minute or hour starts with a star ("*/30 * * * *") follows the clock on the wall: nothing in
  the hour that does not exist, and again in the hour that comes twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import Final, overload
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from duly.errors import DefinitionError

ALIASES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_SHAPE: Final = (
    "Use five fields (minute hour day month weekday), six with seconds first, "
    f"or one of {', '.join(sorted(ALIASES))}."
)
_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_SECONDS_PER_DAY: Final = 86_400
_HORIZON: Final = 41 * 366  # days: a 29 February on a given weekday can be 40 years away
_FIRST_DAY: Final = datetime(1, 1, 3, tzinfo=UTC)  # a walk looks a day around itself
_LAST_DAY: Final = datetime(9999, 12, 29, tzinfo=UTC)
_CYCLE: Final = [date(2000, 1, 1) + _DAY * n for n in (0, 28 * 365 + 7)]  # every date on every weekday


@dataclass(frozen=True, eq=False)
class Line:
    """A cron line as sorted numbers; a position in its day is an index into their product."""

    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]
    calendar: CronSim
    follows_the_wall: bool

    def fires_on(self, day: date) -> bool:
        return day.month in self.calendar.months and self.calendar.match_day(day)

    def fires_near(self, day: date) -> bool:
        """Whether a zone could put one of this line's days into the UTC day `day`."""
        return self.fires_on(day) or self.fires_on(day - _DAY) or self.fires_on(day + _DAY)

    def count_before(self, second: int) -> int:
        """How many times of day lie before the `second` of the day: the index of the first that does not."""
        hour, minute = second // 3600, second // 60 % 60
        found = bisect_left(self.hours, hour)
        count = found * len(self.minutes) * len(self.seconds)
        if hour not in self.hours[found : found + 1]:
            return count
        found = bisect_left(self.minutes, minute)
        count += found * len(self.seconds)
        if minute not in self.minutes[found : found + 1]:
            return count
        return count + bisect_left(self.seconds, second % 60)

    def time_of_day(self, index: int) -> timedelta:
        rest, second = divmod(index, len(self.seconds))
        hour, minute = divmod(rest, len(self.minutes))
        return timedelta(hours=self.hours[hour], minutes=self.minutes[minute], seconds=self.seconds[second])


class Run(Sequence[datetime]):
    """Ticks that follow one another under one offset, computed when they are looked at."""

    def __init__(self, line: Line, midnight: datetime, indexes: range) -> None:
        self._line = line
        self._midnight = midnight
        self._indexes = indexes

    def __len__(self) -> int:
        return len(self._indexes)

    @overload
    def __getitem__(self, at: int) -> datetime: ...
    @overload
    def __getitem__(self, at: slice) -> Run: ...
    def __getitem__(self, at: int | slice) -> datetime | Run:
        if isinstance(at, slice):
            return Run(self._line, self._midnight, self._indexes[at])
        return self._midnight + self._line.time_of_day(self._indexes[at])


@dataclass(frozen=True, slots=True)
class _Span:
    """A stretch of time without a change of clocks."""

    start: datetime
    end: datetime
    offset: timedelta
    reached: datetime
    """The latest wall time any clock of the zone had shown before `start`."""


@lru_cache(maxsize=256)
def parse(expression: str) -> Line:
    """Read a line, or say what is wrong with it."""
    written = ALIASES.get(expression.strip().lower(), expression)
    fields = written.split()
    if len(written) > 200 or len(fields) not in (5, 6):
        raise DefinitionError(f"cron={expression[:200]!r} is not a cron line. {_SHAPE}")
    calendar = _read(expression, written)
    line = Line(
        hours=tuple(sorted(calendar.hours)),
        minutes=tuple(sorted(calendar.minutes)),
        seconds=tuple(sorted(calendar.seconds)),
        calendar=calendar,
        follows_the_wall=any(field.startswith("*") for field in fields[-5:-3]),
    )
    if not _ever_fires(line):
        raise DefinitionError(
            f"cron={expression!r} never fires: no year has such a day. Check day and month."
        )
    return line


@lru_cache(maxsize=256)
def zone(name: str) -> ZoneInfo:
    """The zone of that name, or a definition error: found at the definition, not in a dead scheduler."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        from difflib import get_close_matches  # long to load, and rarely needed

        near = get_close_matches(name, available_timezones(), n=1)
        hint = f"Did you mean {near[0]!r}?" if near else 'Use a name such as "Europe/Paris" or "UTC".'
        raise DefinitionError(f"timezone={name!r} is unknown here. {hint}") from None


def runs_from(line: Line, where: tzinfo, instant: datetime) -> Iterator[Run | tuple[datetime]]:
    """The line's ticks from the UTC day of `instant` on, in runs, oldest first."""
    for day in _days(instant, _DAY):
        if line.fires_near(day.date()):
            yield from _runs_of_day(line, where, day)


def runs_back_from(line: Line, where: tzinfo, instant: datetime) -> Iterator[Run | tuple[datetime]]:
    """The line's ticks from the UTC day of `instant` back, in runs, newest first."""
    for day in _days(instant, -_DAY):
        if line.fires_near(day.date()):
            yield from reversed(list(_runs_of_day(line, where, day)))


def _read(expression: str, written: str) -> CronSim:
    try:
        return CronSim(written, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as complaint:
        reason = str(complaint)
    except (AssertionError, TypeError, ValueError, LookupError):
        reason = "unreadable"  # a few malformed steps trip the parser instead of being refused by it
    raise DefinitionError(f"cron={expression!r} is not a cron line: {reason}. {_SHAPE}")


def _ever_fires(line: Line) -> bool:
    day, end = _CYCLE
    while day < end:
        if line.fires_on(day):
            return True
        day += _DAY
    return False


def _days(instant: datetime, step: timedelta) -> Iterator[datetime]:
    day = instant.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for _ in range(_HORIZON):
        if not _FIRST_DAY <= day <= _LAST_DAY:
            return
        yield day
        day += step


def _runs_of_day(line: Line, where: tzinfo, day: datetime) -> Iterator[Run | tuple[datetime]]:
    for span in _spans(where, day):
        yield from _runs_of_span(line, span)


def _runs_of_span(line: Line, span: _Span) -> Iterator[Run | tuple[datetime]]:
    low = first = _wall(span.start, span.offset)
    if not line.follows_the_wall:
        low = span.reached
    if low < first:  # the clock jumped ahead: whatever it jumped over is due at once, and once
        if any(_times(line, low, first + _SECOND)):
            yield (span.start,)
        low = first + _SECOND
    for day, indexes in _times(line, low, _wall(span.end, span.offset)):
        yield Run(line, datetime(day.year, day.month, day.day, tzinfo=UTC) - span.offset, indexes)


def _times(line: Line, low: datetime, high: datetime) -> Iterator[tuple[date, range]]:
    """The line's times on the wall from `low` up to before `high`, as indexes by day."""
    day, last = low.date(), high.date()
    while day <= last:
        if line.fires_on(day):
            begin = _second_of(low) if day == low.date() else 0
            end = _second_of(high) if day == last else _SECONDS_PER_DAY
            indexes = range(line.count_before(begin), line.count_before(end))
            if indexes:
                yield day, indexes
        day += _DAY


def _spans(where: tzinfo, day: datetime) -> list[_Span]:
    end = day + _DAY
    change = _change(where, day, end - _SECOND)
    cuts = [day, end] if change is None else [day, change, end]
    return [_Span(a, b, _offset(where, a), _reached(where, a)) for a, b in pairwise(cuts)]


def _reached(where: tzinfo, start: datetime) -> datetime:
    here = _wall(start, _offset(where, start))
    change = _change(where, start - _DAY, start)
    if change is None:
        return here
    before = _wall(change, _offset(where, change - _SECOND))
    return before if change == start else max(here, before)


def _change(where: tzinfo, low: datetime, high: datetime) -> datetime | None:
    """The instant in (low, high] at which the zone's offset becomes the one it has at `high`."""
    new = _offset(where, high)
    if _offset(where, low) == new:
        return None
    while high - low > _SECOND:
        middle = low + (high - low) // 2
        middle -= timedelta(microseconds=middle.microsecond)
        if _offset(where, middle) == new:
            high = middle
        else:
            low = middle
    return high


def _offset(where: tzinfo, instant: datetime) -> timedelta:
    return instant.astimezone(where).utcoffset() or timedelta(0)


def _wall(instant: datetime, offset: timedelta) -> datetime:
    return instant.replace(tzinfo=None) + offset


def _second_of(wall: datetime) -> int:
    return wall.hour * 3600 + wall.minute * 60 + wall.second
