"""A job's life drawn as bars: one row per run, from what its history says.

Pure: a job and the moment it is looked at give positions between 0 and 1000, which a page draws as it likes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from duly.cli.words import span
from duly.job import HistoryLine, Job, State

WIDTH: Final = 1000
THINNEST: Final = 4
"""A run of a millisecond in a life of a week must still be seen."""

SHADES: Final = {
    "done": "done",
    "stop": "done",
    "again": "done",
    "fail": "failed",
    "interrupt": "failed",
    "crash": "failed",
    "retry": "failed",
    "refused": "failed",
    "cancel": "cancelled",
    "supersede": "cancelled",
    "absorb": "cancelled",
    "skip": "skipped",
    "expire": "skipped",
}
"""Event to the state whose colour it wears; anything else is quiet."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One run, or one thing that happened at a moment."""

    title: str
    detail: str
    shade: str
    start: int
    width: int
    waited: int
    """Where the wait before it began, on the same scale; equal to `start` when there was none."""
    line: HistoryLine | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """All bars, and what the scale stands for."""

    begin: datetime
    end: datetime
    bars: tuple[Bar, ...]

    @property
    def length(self) -> str:
        """The whole life, in words."""
        return span(self.end - self.begin)


def draw(job: Job, now: datetime) -> Timeline:
    """The job's history, and the run in progress if there is one."""
    moments = [line.started_at or line.at for line in job.history]
    begin = min([job.created_at, *moments])
    end = max([job.finished_at or now, begin + timedelta(milliseconds=1), *(line.at for line in job.history)])
    scale = _Scale(begin, end)
    bars = [_bar(scale, line, previous) for line, previous in _with_previous(job.history, job.created_at)]
    if job.state is State.RUNNING:
        bars.append(_current(scale, job, now))
    return Timeline(begin, end, tuple(bars))


@dataclass(frozen=True, slots=True)
class _Scale:
    begin: datetime
    end: datetime

    def place(self, moment: datetime) -> int:
        share = (moment - self.begin) / (self.end - self.begin)
        return round(WIDTH * min(1.0, max(0.0, share)))


def _with_previous(
    history: Sequence[HistoryLine], created_at: datetime
) -> list[tuple[HistoryLine, datetime]]:
    pairs: list[tuple[HistoryLine, datetime]] = []
    previous = created_at
    for line in history:
        pairs.append((line, previous))
        previous = line.at
    return pairs


def _bar(scale: _Scale, line: HistoryLine, previous: datetime) -> Bar:
    begun = line.started_at or line.at
    start = min(scale.place(begun), WIDTH - THINNEST)
    return Bar(
        title=line.event,
        detail=span(line.at - line.started_at) if line.started_at else "",
        shade=SHADES.get(line.event, "quiet"),
        start=start,
        width=max(THINNEST, scale.place(line.at) - start),
        waited=min(start, scale.place(previous)),
        line=line,
    )


def _current(scale: _Scale, job: Job, now: datetime) -> Bar:
    """When it was lent is nowhere written: not before it was due, nor before the last thing that is known."""
    known = max([job.created_at, *(line.at for line in job.history)])
    start = min(scale.place(max(known, min(job.due, now))), WIDTH - THINNEST)
    left = "" if job.ready_at is None else f"lease ends in {span(job.ready_at - now)}"
    waited = min(start, scale.place(known))
    return Bar("on loan", left, "running", start, max(THINNEST, WIDTH - start), waited)
