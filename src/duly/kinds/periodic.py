"""A schedule: a perpetual job of the engine's own that puts one job per tick.

The schedule's job carries its last tick in its arguments, so settling it — next look, new last tick
and the ticks' jobs — is one atomic write, and any number of workers may do it.

Its terms are a small JSON object: what the code says, overlaid with what an operator changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final, Literal, TypedDict, cast

from duly.durations import Duration, duration
from duly.errors import DefinitionError
from duly.job import ENGINE_QUEUES, Overlap
from duly.ticks import Cron, Every, Missed, Plan, Timetable, plan_ticks

QUEUE: Final = ENGINE_QUEUES[0]
PREFIX: Final = "duly.schedule:"

Terms = dict[str, Any]


class ScheduleOptions(TypedDict, total=False):
    """The keywords of `@app.schedule(...)`."""

    cron: str
    every: Duration
    mode: Literal["rate", "delay"]
    """For `every`: on a fixed grid, or counted from the end of the last run."""
    name: str
    timezone: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    missed: Literal["last", "skip", "all"]
    grace: Duration
    max_catch_up: int
    overlap: Literal["queue_one", "skip", "allow", "cancel_previous"]
    jitter: Duration
    start: datetime
    end: datetime


TERMS: Final = frozenset(
    [
        "task",
        "cron",
        "every",
        "mode",
        "timezone",
        "missed",
        "grace",
        "max_catch_up",
        "overlap",
        "jitter",
        "start",
        "end",
        "arguments",
    ]
)
EDITABLE: Final = TERMS - {"task"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a task runs by itself."""

    name: str
    task: str
    timetable: Timetable
    missed: Missed = "last"
    grace: timedelta | None = None
    max_catch_up: int = 100
    overlap: Overlap = Overlap.QUEUE_ONE
    jitter: timedelta = timedelta(0)
    start: datetime | None = None
    end: datetime | None = None
    arguments: str = "[[],{}]"

    @property
    def job_task(self) -> str:
        """The task name of the schedule's own job: its lane, which a pause holds."""
        return job_task(self.name)

    @property
    def counts_from_end(self) -> bool:
        """Fixed delay: the interval starts when the last run ended."""
        return isinstance(self.timetable, Every) and self.timetable.mode == "delay"


def job_task(name: str) -> str:
    """Each schedule has a lane of its own, so a worker takes only those it knows."""
    return f"{PREFIX}{name}"


def tick_key(name: str, tick: datetime) -> str:
    """One invocation per tick: the instant is part of its key."""
    return f"{name}@{tick.astimezone(UTC).isoformat().replace('+00:00', 'Z')}"


def tick_serial(name: str) -> str:
    """Ticks of one schedule must not overlap unless asked to."""
    return f"schedule|{name}"


def read_terms(name: str, terms: Mapping[str, Any]) -> Schedule:
    """Terms to a schedule; every mistake is found here, at definition or edit."""
    unknown = set(terms) - TERMS
    if unknown:
        raise DefinitionError(
            f"Schedule {name!r} has no term {sorted(unknown)[0]!r}. Terms: {', '.join(sorted(TERMS))}."
        )
    start, end = _instant(name, terms, "start"), _instant(name, terms, "end")
    if start is not None and end is not None and end <= start:
        raise DefinitionError(
            f"Schedule {name!r} ends at {end.isoformat()}, before it starts at {start.isoformat()}."
        )
    return Schedule(
        name=name,
        task=terms["task"],
        timetable=_timetable(name, terms),
        missed=_missed(name, terms.get("missed", "last")),
        grace=None
        if terms.get("grace") is None
        else duration(terms["grace"], what=f"grace of schedule {name!r}"),
        max_catch_up=_at_least_one(name, terms.get("max_catch_up", 100)),
        overlap=_overlap(name, terms.get("overlap", "queue_one")),
        jitter=duration(terms.get("jitter", 0), what=f"jitter of schedule {name!r}"),
        start=start,
        end=end,
        arguments=terms.get("arguments", "[[],{}]"),
    )


def _timetable(name: str, terms: Mapping[str, Any]) -> Timetable:
    cron, every = terms.get("cron"), terms.get("every")
    if (cron is None) == (every is None):
        raise DefinitionError(f"Schedule {name!r} needs either cron='…' or every='…', and not both.")
    stray = _stray(terms, is_cron=cron is not None)
    if stray is not None:
        raise DefinitionError(
            f"Schedule {name!r}: {stray} means nothing beside {'cron' if cron else 'every'}='…'."
        )
    if cron is not None:
        return Cron(cron, terms.get("timezone", "UTC"))
    return Every(cast(Duration, every), _instant(name, terms, "start"), terms.get("mode", "rate"))


def _stray(terms: Mapping[str, Any], *, is_cron: bool) -> str | None:
    """A word that would be ignored."""
    if is_cron:
        return "mode" if terms.get("mode", "rate") != "rate" else None
    return "timezone" if terms.get("timezone", "UTC") != "UTC" else None


def _instant(name: str, terms: Mapping[str, Any], which: str) -> datetime | None:
    value = terms.get(which)
    if value is None:
        return None
    instant = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(instant, datetime) or instant.utcoffset() is None:
        raise DefinitionError(
            f"{which} of schedule {name!r} is {value!r}; it takes a datetime with a time zone."
        )
    return instant


def _missed(name: str, value: object) -> Missed:
    if value in ("last", "skip", "all"):
        return value
    raise DefinitionError(f"missed of schedule {name!r} is {value!r}; it takes 'last', 'skip' or 'all'.")


def _overlap(name: str, value: object) -> Overlap:
    if value in ("queue_one", "skip", "allow", "cancel_previous"):
        return Overlap(value)
    raise DefinitionError(
        f"overlap of schedule {name!r} is {value!r}; "
        "it takes 'queue_one', 'skip', 'allow' or 'cancel_previous'."
    )


def _at_least_one(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise DefinitionError(
        f"max_catch_up of schedule {name!r} is {value!r}; it takes a whole number of at least 1."
    )


def tick_overlap(schedule: Schedule) -> Overlap:
    """With missed='all' every tick runs, one after the other; else a later tick overtakes a waiting one."""
    if schedule.missed == "all" and schedule.overlap is Overlap.QUEUE_ONE:
        return Overlap.QUEUE_ALL
    return schedule.overlap


def plan(schedule: Schedule, last_tick: datetime, now: datetime) -> Plan:
    """Which ticks to put now, and when to look again."""
    return plan_ticks(
        schedule.timetable,
        last_tick,
        now,
        missed=schedule.missed,
        grace=schedule.grace,
        max_catch_up=schedule.max_catch_up,
        start=schedule.start,
        end=schedule.end,
    )


def plan_after_end(schedule: Schedule, last_tick: datetime, last_end: datetime | None, now: datetime) -> Plan:
    """Fixed delay: due one interval after the last run ended; `last_end` is None before the first.

    While nothing is due the last tick stays as it is: its run is found by it at the next look.
    """
    assert isinstance(schedule.timetable, Every)
    interval = duration(schedule.timetable.interval)
    due = schedule.start or now if last_end is None else last_end + interval
    if schedule.end is not None and due > schedule.end:
        return Plan((), 0, last_tick, None)
    if due > now:
        return Plan((), 0, last_tick, due)
    return Plan((now,), 0, now, now + interval)


def jittered(schedule: Schedule, tick: datetime) -> datetime:
    """The same spread on every worker, so two of them would agree on a tick's due time."""
    digest = sha256(tick_key(schedule.name, tick).encode()).digest()
    return tick + schedule.jitter * (int.from_bytes(digest[:4]) / 2**32)


NEVER_TICKED: Final = json.dumps({"last_tick": None})
"""What a new schedule's job carries: it counts from its creation, by the clock of its store."""


def pack_last_tick(last_tick: datetime) -> str:
    """What the schedule's job carries from look to look."""
    return json.dumps({"last_tick": last_tick.astimezone(UTC).isoformat()})


def unpack_last_tick(arguments: str) -> datetime | None:
    """Back from the schedule's job; None before its first look."""
    text = json.loads(arguments)["last_tick"]
    return None if text is None else datetime.fromisoformat(text)
