"""Schedules as pages show them: what comes, what came, and what would come by other terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from duly import cron
from duly.cli.redaction import Redaction
from duly.cli.schedules import fitting
from duly.cli.schedules import timetable as in_words
from duly.dashboard.desk import last_run
from duly.dashboard.timeline import WIDTH
from duly.errors import UnknownSchedule
from duly.job import Job
from duly.kinds import periodic
from duly.kinds.periodic import Schedule
from duly.schedules import ScheduleView, merge
from duly.ticks import Cron, Timetable, interval_of, ticks_between

if TYPE_CHECKING:
    from duly.app import App

AHEAD: Final = timedelta(hours=24)
DRAWN: Final = 300
"""Ticks of one schedule on the picture: more would only be a solid bar."""
LISTED: Final = 20
NEARBY: Final = 6
"""Ticks listed on either side of a change of clocks."""
YEAR: Final = timedelta(days=370)
OUTCOMES: Final = 10
"""Last ticks that are shown of a schedule."""
MOST_OUTCOMES: Final = 300
"""Ticks that a list looks for: each is a question to the store. Of many schedules it shows fewer of each."""
PLACED: Final = 10**18
"""Past every generation. The engine puts ticks itself: none is among the requests that wait to be placed."""
LONGEST_OF: Final = 5
"""Last runs whose length a forecast looks at."""
LOOKED_THROUGH: Final = 100


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule in the list."""

    view: ScheduleView
    words: str
    marks: Sequence[int]
    """Its ticks in the next day, as positions on the picture."""
    next_tick: datetime | None
    outcomes: Sequence[Job]
    """The jobs of its last ticks, oldest first."""


@dataclass(frozen=True, slots=True)
class Tick:
    """One tick to come."""

    at: datetime
    local: datetime
    note: str
    """What the clocks do there; empty on ordinary days."""
    others: Sequence[str]
    """Schedules that tick at the same instant."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What terms would mean."""

    ticks: Sequence[Tick]
    change: datetime | None
    """The next change of clocks in the schedule's zone."""
    around: Sequence[Tick]
    """The ticks of the days around it."""
    longest: timedelta | None
    """The longest of the last runs."""
    tightest: timedelta | None
    """The shortest distance between two of the ticks."""

    @property
    def overlaps(self) -> bool:
        """Whether a run as long as the longest would meet the next tick."""
        return self.longest is not None and self.tightest is not None and self.longest > self.tightest


class Calendar:
    """Reads schedules."""

    def __init__(self, app: App, redaction: Redaction) -> None:
        self._app = app
        self._redaction = redaction

    def rows(self, *, with_outcomes: bool = True) -> list[ScheduleRow]:
        """All schedules, by name."""
        now, views = self._app.clock.now(), self._app.schedules.list()
        share = max(1, min(OUTCOMES, MOST_OUTCOMES // max(1, len(views))))
        return [self._row(view, now, share if with_outcomes else 0) for view in views]

    def row(self, name: str) -> ScheduleRow:
        """One schedule; UnknownSchedule if there is none."""
        return self._row(_named(name, self._app.schedules.list()), self._app.clock.now(), OUTCOMES)

    def _row(self, view: ScheduleView, now: datetime, amount: int) -> ScheduleRow:
        schedule = periodic.read_terms(view.name, view.terms)
        ticks = [] if view.is_paused else upcoming(schedule, now, now + AHEAD, DRAWN)
        marks = [round(WIDTH * ((tick - now) / AHEAD)) for tick in ticks]
        following = ticks or upcoming(schedule, now, now + YEAR, 1)
        outcomes = self._redaction.jobs(self._outcomes(view, amount))
        return ScheduleRow(view, in_words(view), marks, following[0] if following else None, outcomes)

    def _outcomes(self, view: ScheduleView, amount: int) -> list[Job]:
        """Its last ticks, oldest first. By their keys: a rare task is lost among a million jobs."""
        if view.last_tick is None or not amount:
            return []
        if view.overlay or view.terms.get("mode") == "delay":  # its ticks were not where the terms say
            return self._ticked(view, amount)
        timetable = periodic.read_terms(view.name, view.terms).timetable
        keys = [periodic.tick_key(view.name, tick) for tick in recent(timetable, view.last_tick, amount)]
        jobs = self._app.jobs
        return [job for key in keys for job in jobs.list(task=view.task, key=key, limit=1, before=PLACED)]

    def _ticked(self, view: ScheduleView, amount: int) -> list[Job]:
        found = self._app.jobs.list(task=view.task, limit=LOOKED_THROUGH)
        prefix = f"{view.name}@"
        ticks = [job for job in found if job.tick is not None and (job.key or "").startswith(prefix)]
        return ticks[:amount][::-1]

    def foretell(self, name: str, changes: Mapping[str, Any]) -> Forecast:
        """The ticks that these terms over the present ones would give. Nothing is written."""
        views, now = self._app.schedules.list(), self._app.clock.now()
        view = _named(name, views)
        schedule = periodic.read_terms(name, merge(view.terms, fitting(view.terms, changes)))
        others = _others(name, views, now)
        zone = zone_of(schedule)
        ticks = upcoming(schedule, now, now + YEAR, LISTED)
        change = next_change(zone, now)
        around = [] if change is None else _days_around(schedule, change, now)
        gaps = [later - sooner for sooner, later in pairwise(ticks)]
        return Forecast(
            ticks=[_tick(tick, zone, others) for tick in ticks],
            change=change,
            around=[_tick(tick, zone, others) for tick in around],
            longest=self._longest(view),
            tightest=min(gaps, default=None),
        )

    def _longest(self, view: ScheduleView) -> timedelta | None:
        runs = [last_run(self._app.jobs.get(job.id)) for job in self._outcomes(view, LONGEST_OF)]
        lengths = [line.at - line.started_at for line in runs if line is not None and line.started_at]
        return max(lengths, default=None)


def _named(name: str, views: Sequence[ScheduleView]) -> ScheduleView:
    for view in views:
        if view.name == name:
            return view
    raise UnknownSchedule(name, [view.name for view in views])


def _others(name: str, views: Sequence[ScheduleView], now: datetime) -> dict[datetime, list[str]]:
    """The ticks of the other schedules that tick, and whose they are."""
    found: dict[datetime, list[str]] = {}
    for view in views:
        if view.name != name and not view.is_paused:
            for tick in upcoming(periodic.read_terms(view.name, view.terms), now, now + AHEAD, DRAWN):
                found.setdefault(tick, []).append(view.name)
    return found


def upcoming(schedule: Schedule, after: datetime, until: datetime, limit: int) -> list[datetime]:
    """Ticks to come, within the schedule's own start and end."""
    begin = after if schedule.start is None else max(after, schedule.start - timedelta(microseconds=1))
    end = until if schedule.end is None else min(until, schedule.end)
    return ticks_between(schedule.timetable, begin, end, limit)


def recent(timetable: Timetable, last: datetime, amount: int) -> list[datetime]:
    """The ticks up to the last one, at most so many; looked for further back where they are far apart."""
    reach = min(interval_of(timetable, last), YEAR) * amount
    while True:
        found = ticks_between(timetable, last - reach, last, 50 * amount)[-amount:]
        if len(found) == amount or reach > YEAR:
            return found
        reach *= 4


def _days_around(schedule: Schedule, change: datetime, now: datetime) -> list[datetime]:
    """A day on either side, or less where ticks are many."""
    reach = min(timedelta(days=1), interval_of(schedule.timetable, change) * NEARBY)
    sooner = upcoming(schedule, max(now, change - reach), change, DRAWN)
    later = upcoming(schedule, change, change + reach, NEARBY)
    return [*sooner[-NEARBY:], *(tick for tick in later if tick not in sooner)]


def zone_of(schedule: Schedule) -> tzinfo:
    """The zone its line is written in; intervals know none."""
    return cron.zone(schedule.timetable.timezone) if isinstance(schedule.timetable, Cron) else UTC


def next_change(zone: tzinfo, after: datetime) -> datetime | None:
    """When the clocks of a zone are changed next, to the minute; None if they are not within a year."""
    day, offset = after, after.astimezone(zone).utcoffset()
    while day < after + YEAR:
        following = day + timedelta(days=1)
        if following.astimezone(zone).utcoffset() != offset:
            return _bisected(zone, day, following)
        day = following
    return None


def _bisected(zone: tzinfo, low: datetime, high: datetime) -> datetime:
    before = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) / 2
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high.replace(second=0, microsecond=0) if high.second < 2 else high


def _tick(tick: datetime, zone: tzinfo, others: Mapping[datetime, Sequence[str]]) -> Tick:
    local = tick.astimezone(zone)
    return Tick(tick, local, _note(tick, zone), others.get(tick, ()))


def _note(tick: datetime, zone: tzinfo) -> str:
    local = tick.astimezone(zone)
    earlier = (tick - timedelta(hours=3)).astimezone(zone).utcoffset()
    shift = (local.utcoffset() or timedelta(0)) - (earlier or timedelta(0))
    if shift > timedelta(0):
        return "clocks have just gone forward"
    if local.fold:
        return "this hour comes twice: the second time"
    if local.replace(fold=1).utcoffset() != local.utcoffset():
        return "this hour comes twice: the first time"
    return ""


def outcome_counts(jobs: Sequence[Job]) -> Counter[str]:
    """How its last ticks ended."""
    return Counter(str(job.state) for job in jobs)


def shown_terms(view: ScheduleView) -> dict[str, Any]:
    """The terms people know it by; its arguments are shown with care elsewhere."""
    hidden = ("task", "arguments")
    return {name: value for name, value in view.terms.items() if name not in hidden and value is not None}


def arguments_of(view: ScheduleView) -> str:
    """`[args, kwargs]` of every tick, as stored."""
    return str(view.terms.get("arguments", "[[],{}]"))
