"""What each row means: a schedule, a single run, or something for a person."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, cast

from duly.cli.beat.lines import cron_line
from duly.cli.beat.rows import Row
from duly.durations import describe
from duly.errors import DefinitionError
from duly.ticks import Cron, Every, Timetable, next_tick

Kind = Literal["schedule", "once", "disabled", "by hand"]

BUILT_IN: Final = "celery.backend_cleanup"
_PATH: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row, understood as far as it can be."""

    name: str
    task: str
    kind: Kind
    words: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """cron and timezone, every, start, end; for a single run run_after."""
    args: list[Any] = field(default_factory=list[Any])
    kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    queue: str | None = None
    notes: tuple[str, ...] = ()
    """What the code cannot say, for whoever reads it."""


def understood(row: Row, now: datetime) -> Entry | None:
    """An entry for a row; None for what Celery put there for itself."""
    name, task = str(row["name"]), str(row["task"])
    if task == BUILT_IN:
        return None
    try:
        return _entry(row, now)
    except DefinitionError as error:
        return Entry(name=name, task=task, kind="by hand", notes=(str(error).rstrip("."),))


def _entry(row: Row, now: datetime) -> Entry:
    task = str(row["task"])
    if not _PATH.fullmatch(task):
        raise DefinitionError(f"Celery knows its task as {task!r}, which is no path of a function")
    words = _words(row, now)
    kind: Kind = "once" if "run_after" in words else "schedule"
    if not row["enabled"]:
        kind = "disabled"
    elif kind == "once" and words["run_after"] <= now:
        raise DefinitionError(f"it was to run once, at {words['run_after']:%Y-%m-%d %H:%M %Z}, which is past")
    return Entry(
        name=str(row["name"]),
        task=task,
        kind=kind,
        words=words,
        args=_read(row, "args", list),
        kwargs=_read(row, "kwargs", dict),
        queue=row.get("queue") or None,
        notes=tuple(_notes(row)),
    )


def _words(row: Row, now: datetime) -> dict[str, Any]:
    if row.get("clocked_time") is not None:
        return {"run_after": _moment(row["clocked_time"])}
    timing = _timing(row)
    start, end = row.get("start_time"), row.get("expires")
    bounds = {"start": start and _moment(start), "end": end and _moment(end)}
    if row.get("one_off"):
        return {"run_after": _next(timing, max(now, bounds["start"] or now))}
    return {**timing, **{word: moment for word, moment in bounds.items() if moment is not None}}


def _timing(row: Row) -> dict[str, Any]:
    if row.get("minute") is not None:
        return {"cron": cron_line(row), "timezone": str(row["timezone"] or "UTC")}
    if row.get("every") is not None:
        return {"every": describe(timedelta(**{str(row["period"]): int(row["every"])}))}
    if row.get("solar_event"):
        raise DefinitionError(
            f"it follows the sun ({row['solar_event']}). Compute the moment in a perpetual task: "
            "run.again(at=…)"
        )
    raise DefinitionError("it has no schedule")


def _next(timing: Mapping[str, Any], after: datetime) -> datetime:
    table: Timetable = (
        Every(timing["every"]) if "every" in timing else Cron(timing["cron"], timing["timezone"])
    )
    found = next_tick(table, after)
    if found is None:
        raise DefinitionError(f"{timing} never comes again")
    return found


def _moment(value: Any) -> datetime:
    """SQLite has text, in UTC as Django writes it."""
    moment = datetime.fromisoformat(value) if isinstance(value, str) else cast(datetime, value)
    return (moment.replace(tzinfo=UTC) if moment.utcoffset() is None else moment.astimezone(UTC)).replace(
        microsecond=0
    )


def _read(row: Row, word: str, kind: type[Any]) -> Any:
    try:
        found = json.loads(row[word] or ("[]" if kind is list else "{}"))
    except ValueError:
        found = None
    if not isinstance(found, kind):
        raise DefinitionError(f"its {word} are not what Celery could call it with: {row[word]!r}")
    return found


def _notes(row: Row) -> list[str]:
    """What has another place in Duly, or none."""
    notes: list[str] = []
    if row.get("priority") is not None:
        notes.append(f"priority {row['priority']} in Celery's scale, whose direction depends on the broker")
    if row.get("expire_seconds"):
        after = describe(timedelta(seconds=int(row["expire_seconds"])))
        notes.append(f'expires {after} after each tick: say @task(expires="{after}")')
    amqp = [word for word in ("exchange", "routing_key") if row.get(word)]
    notes.extend(f"{word} {row[word]!r} is left out: Duly has queues only" for word in amqp)
    if row.get("headers") not in (None, "", "{}"):
        notes.append(f"headers {row['headers']} are left out: bind(…) travels with requests")
    return notes
