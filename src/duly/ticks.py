"""When a schedule fires, and what becomes of the ticks it missed.

Pure functions of a timetable and of instants: the same last tick and the same `now` give the same plan
on every worker, so it does not matter which of them makes it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Final, Literal, TypeAlias

from duly import cron
from duly.durations import Duration, duration
from duly.errors import DefinitionError

Missed: TypeAlias = Literal["last", "skip", "all"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INSTANT: Final = timedelta(microseconds=1)
_LONGEST_GRACE: Final = timedelta(seconds=60)
_MEMORY: Final = timedelta(days=3660)  # ticks missed longer ago than this are not even counted


@dataclass(frozen=True)
class Cron:
    """Ticks at the times a cron line names, in a zone."""

    expression: str
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str):
            raise DefinitionError(f'cron={self.expression!r} is not text. Write it like "0 2 * * *".')
        if not isinstance(self.timezone, str):
            raise DefinitionError(f'timezone={self.timezone!r} is not a name. Write "Europe/Paris".')
        cron.parse(self.expression)
        cron.zone(self.timezone)


@dataclass(frozen=True)
class Every:
    """Ticks at a fixed distance.

    `rate` keeps to the grid anchor + n x interval (from 1970 when no anchor is given, so that all
    workers agree); `delay` counts from the moment the caller names as the end of the last one.
    """

    interval: Duration
    anchor: datetime | None = None
    mode: Literal["rate", "delay"] = "rate"

    def __post_init__(self) -> None:
        object.__setattr__(self, "interval", duration(self.interval, what="every", allow_zero=False))
        if self.anchor is not None and self.anchor.utcoffset() is None:
            raise DefinitionError(f"anchor={self.anchor!r} has no time zone. Give it one: tzinfo=UTC.")
        if self.mode not in ("rate", "delay"):
            raise DefinitionError(f'mode={self.mode!r} is unknown. Use "rate" or "delay".')


Timetable: TypeAlias = Cron | Every


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do about a schedule now."""

    due: tuple[datetime, ...]
    """The ticks to put, oldest first."""
    dropped: int
    """How many more there were that nobody will run."""
    last_tick: datetime
    """Where the next plan continues from."""
    next_at: datetime | None
    """When to look again; None when the timetable has ended."""


@dataclass(frozen=True, slots=True)
class _Window:
    """The ticks later than `after` and not later than `until`."""

    after: datetime
    until: datetime


def next_tick(timetable: Timetable, after: datetime) -> datetime | None:
    """The first tick later than `after`, in UTC; None when the calendar ends first."""
    if isinstance(timetable, Cron):
        return next(_cron_ticks(timetable, after), None)
    try:
        return _next_every(timetable, after)
    except OverflowError:
        return None


def ticks_between(timetable: Timetable, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """The oldest `limit` ticks later than `after` and not later than `until`."""
    return list(islice(takewhile(lambda tick: tick <= until, _ticks(timetable, after)), limit))


def interval_of(timetable: Timetable, around: datetime) -> timedelta:
    """The distance between the next two ticks; endless when there are no two."""
    if isinstance(timetable, Every):
        return duration(timetable.interval)
    first = next_tick(timetable, around)
    second = next_tick(timetable, first) if first else None
    return second - first if first and second else timedelta.max


def plan_ticks(
    timetable: Timetable,
    last_tick: datetime,
    now: datetime,
    *,
    missed: Missed = "last",
    grace: timedelta | None = None,
    max_catch_up: int = 100,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Plan:
    """Which ticks between `last_tick` and `now` to run.

    One that is at most `grace` late (by default the smaller of 60 s and half the interval) is on time
    and runs; older ones are missed: "skip" drops them, "last" runs the newest if none is on time, "all"
    runs them too. Never more than `max_catch_up`, the newest, are due at once.
    """
    if isinstance(timetable, Every) and timetable.mode == "delay":
        timetable = replace(timetable, anchor=last_tick, mode="rate")
        missed = "skip" if missed == "skip" else "last"  # a pause that lasted longer is still one pause
    if grace is None:
        grace = min(_LONGEST_GRACE, interval_of(timetable, now) / 2)
    window = _Window(max(_opening(last_tick, start), now - _MEMORY), now if end is None else min(now, end))
    newest = _newest(timetable, window, max(1, max_catch_up))
    due = _chosen(missed, newest, [tick for tick in newest if now - tick <= grace])
    reached = newest[-1] if newest else last_tick
    next_at = next_tick(timetable, _opening(reached, start))
    return Plan(
        due=tuple(due),
        dropped=_count(timetable, window) - len(due),
        last_tick=reached,
        next_at=next_at if next_at is None or end is None or next_at <= end else None,
    )


def _chosen(missed: Missed, newest: list[datetime], on_time: list[datetime]) -> list[datetime]:
    match missed:
        case "all":
            return newest
        case "skip":
            return on_time
        case "last":
            return on_time or newest[-1:]


def _opening(last_tick: datetime, start: datetime | None) -> datetime:
    """The instant after which ticks count; a tick at `start` itself does."""
    return last_tick if start is None else max(last_tick, start - _INSTANT)


def _ticks(timetable: Timetable, after: datetime) -> Iterator[datetime]:
    if isinstance(timetable, Cron):
        yield from _cron_ticks(timetable, after)
        return
    tick = next_tick(timetable, after)
    while tick is not None:
        yield tick
        tick = next_tick(timetable, tick)


def _cron_ticks(timetable: Cron, after: datetime) -> Iterator[datetime]:
    for run in cron.runs_from(cron.parse(timetable.expression), cron.zone(timetable.timezone), after):
        yield from run[bisect_right(run, after) :]


def _next_every(timetable: Every, after: datetime) -> datetime:
    if timetable.mode == "delay":
        return after.astimezone(UTC) + duration(timetable.interval)
    return _grid_tick(timetable, _grid_index(timetable, after) + 1)


def _count(timetable: Timetable, window: _Window) -> int:
    if window.until <= window.after:
        return 0
    if isinstance(timetable, Every):
        return _grid_index(timetable, window.until) - _grid_index(timetable, window.after)
    count = 0
    line, where = cron.parse(timetable.expression), cron.zone(timetable.timezone)
    for run in cron.runs_from(line, where, window.after):
        if run[0] > window.until:
            break
        count += bisect_right(run, window.until) - bisect_right(run, window.after)
    return count


def _newest(timetable: Timetable, window: _Window, limit: int) -> list[datetime]:
    """The last `limit` ticks of the window, oldest first."""
    if window.until <= window.after:
        return []
    if isinstance(timetable, Every):
        last = _grid_index(timetable, window.until)
        first = max(_grid_index(timetable, window.after), last - limit) + 1
        return [_grid_tick(timetable, index) for index in range(first, last + 1)]
    return _newest_cron(timetable, window, limit)


def _newest_cron(timetable: Cron, window: _Window, limit: int) -> list[datetime]:
    newest: list[datetime] = []
    line, where = cron.parse(timetable.expression), cron.zone(timetable.timezone)
    for run in cron.runs_back_from(line, where, window.until):
        stop = bisect_right(run, window.until)
        begin = max(bisect_right(run, window.after), stop - (limit - len(newest)))
        newest[:0] = run[begin:stop]
        if run[0] <= window.after or len(newest) >= limit:
            break
    return newest


def _grid_index(timetable: Every, instant: datetime) -> int:
    """The number of the last grid tick that is not later than `instant`."""
    return (instant - (timetable.anchor or _EPOCH)) // duration(timetable.interval)


def _grid_tick(timetable: Every, index: int) -> datetime:
    # In UTC, because adding to a zoned datetime moves its wall clock rather than time.
    return (timetable.anchor or _EPOCH).astimezone(UTC) + duration(timetable.interval) * index
