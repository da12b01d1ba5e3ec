"""`app.pulse`: how much was run, how long it waited and took, minute by minute; how deep queues were.

Every worker adds up its own runs and writes the sums of a minute down every few seconds, so a chart costs a
worker one small write in ten seconds, whatever it runs. A worker that is killed takes its last seconds along.
Every half minute one of the workers writes down how many jobs wait and how late the oldest is.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from duly.clock import Clock
from duly.durations import Duration, duration
from duly.errors import BadRequest
from duly.job import ENGINE_QUEUES, State
from duly.stores.contract import Census, Store
from duly.stores.drive import Operation
from duly.stores.reports import Entry

KIND: Final = "pulse"
DEPTH: Final = "depth"
KEPT: Final = timedelta(days=1)
MINUTE: Final = timedelta(minutes=1)
BOUNDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 600.0)
"""Seconds: where the buckets of a spread end; one more bucket is for what took longer."""
MOST_ENTRIES: Final = 20_000
"""A minute of a worker is an entry; of more than these the oldest are not read."""
MOST_QUEUES: Final = 100
"""So many queues of one look are told apart, the deepest ones; the others are one without a name."""


@dataclass(slots=True)
class Spread:
    """How lengths of time are spread: how many in each bucket, and all together."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def add_all(self, lengths: Iterable[float]) -> None:
        """Many more: sorted, they are looked at once for each bucket."""
        ordered, seen = sorted(lengths), 0
        for bucket, bound in enumerate((*BOUNDS, math.inf)):
            found = bisect_right(ordered, bound)
            self.counts[bucket] += found - seen
            seen = found
        self.total += sum(ordered)

    def merge(self, other: Spread) -> None:
        """All of another."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    @property
    def size(self) -> int:
        """How many."""
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        """Seconds; None of none."""
        return self.total / self.size if self.size else None

    def quantile(self, part: float) -> float | None:
        """The end of the bucket in which so large a part is reached: perhaps infinity; None of none."""
        wanted, seen = part * self.size, 0
        for count, bound in zip(self.counts, (*BOUNDS, float("inf")), strict=True):
            seen += count
            if count and seen >= wanted:
                return bound
        return None


@dataclass(slots=True)
class Sum:
    """Runs of one task, queue and outcome."""

    task: str
    queue: str
    outcome: str
    """done, again, retry, defer, release, crash, fail, skip, stop, lost, superseded, cancelled."""
    runs: int = 0
    waited: Spread = field(default_factory=Spread)
    """From due to start, of first tries."""
    took: Spread = field(default_factory=Spread)

    def note(self, wait: float | None, took: float | None) -> None:
        """One more, as far as its times are known."""
        self.runs += 1
        if wait is not None:
            self.waited.add(wait)
        if took is not None:
            self.took.add(took)

    def note_all(self, runs: int, waits: Iterable[float], times: Iterable[float]) -> None:
        """So many more."""
        self.runs += runs
        self.waited.add_all(waits)
        self.took.add_all(times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What happened in one step of a series."""

    at: datetime
    """Its beginning."""
    runs: Counter[str]
    """How many runs ended, by outcome."""
    waited: Spread
    took: Spread


Points = list[Point]


class Depth(NamedTuple):
    """How much there was to do at one moment."""

    at: datetime
    waiting: int
    running: int
    late: float
    """Seconds by which the oldest ready job was late."""


Depths = list[Depth]


class Pulse:
    """Every method has an async twin with a leading `a`."""

    def __init__(self, store: Callable[[], Store], clock: Callable[[], Clock]) -> None:
        self._store = store
        self._clock = clock

    def series(
        self,
        *,
        past: Duration = "1h",
        step: Duration = "1m",
        task: str | None = None,
        queue: str | None = None,
    ) -> Points:
        """From the oldest step to the one in progress, without gaps; of one task or queue, or of all."""
        frame = Frame.of(self._clock().now(), past, step)
        return frame.points(self._store().run(self._read(frame)), task, queue)

    async def aseries(
        self,
        *,
        past: Duration = "1h",
        step: Duration = "1m",
        task: str | None = None,
        queue: str | None = None,
    ) -> Points:
        """The async twin of series."""
        frame = Frame.of(self._clock().now(), past, step)
        return frame.points(await self._store().arun(self._read(frame)), task, queue)

    def depths(self, *, past: Duration = "1h", queue: str | None = None) -> Depths:
        """Looks of the past, oldest first, half a minute apart while workers ran; of one queue or all."""
        return _depths(self._store().run(self._looks(past)), queue)

    async def adepths(self, *, past: Duration = "1h", queue: str | None = None) -> Depths:
        """The async twin of depths."""
        return _depths(await self._store().arun(self._looks(past)), queue)

    def _looks(self, past: Duration) -> Operation[list[Entry]]:
        since = self._clock().now() - min(duration(past, what="past"), KEPT)
        return self._store().diary(DEPTH, limit=MOST_ENTRIES, since=since)

    def _read(self, frame: Frame) -> Operation[list[Entry]]:
        return self._store().diary(KIND, limit=MOST_ENTRIES, since=frame.begins)


@dataclass(frozen=True, slots=True)
class Frame:
    """Steps between two moments."""

    begins: datetime
    step: timedelta
    steps: int

    @classmethod
    def of(cls, now: datetime, past: Duration, step: Duration) -> Frame:
        """Up to the step in progress. Steps are whole minutes and begin where people expect them."""
        length, width = duration(past, what="past"), duration(step, what="step", allow_zero=False)
        if width % MINUTE:
            raise BadRequest(f"step={step!r} is no whole number of minutes. Sums are kept by the minute.")
        steps = max(1, -(-min(length, KEPT) // width))
        last = EPOCH + (now - EPOCH) // width * width
        return cls(last - (steps - 1) * width, width, steps)

    def points(self, entries: list[Entry], task: str | None, queue: str | None) -> Points:
        """Entries of all workers, added up."""
        points = [
            Point(at=self.begins + number * self.step, runs=Counter(), waited=Spread(), took=Spread())
            for number in range(self.steps)
        ]
        for entry in entries:
            minute, sums = unpacked(entry.text)
            place = (minute - self.begins) // self.step
            for one in sums if 0 <= place < self.steps else ():
                if task in (None, one.task) and queue in (None, one.queue):
                    points[place].runs[one.outcome] += one.runs
                    points[place].waited.merge(one.waited)
                    points[place].took.merge(one.took)
        return points


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def packed(minute: int, worker: str, sums: Iterable[Sum]) -> str:
    """The sums of one worker's minute, as they are written down."""
    rows = [_values(one) for one in sums]
    return json.dumps([minute, worker, rows], separators=(",", ":"))


def _values(one: Sum) -> list[Any]:
    return [one.task, one.queue, one.outcome, one.runs, *_numbers(one.waited), *_numbers(one.took)]


def _numbers(spread: Spread) -> tuple[list[int], float]:
    return spread.counts, round(spread.total, 6)


def unpacked(text: str) -> tuple[datetime, list[Sum]]:
    """What was written down."""
    minute, _, rows = json.loads(text)
    return EPOCH + minute * MINUTE, [_sum(*row) for row in rows]


def _sum(*values: Any) -> Sum:
    task, queue, outcome, runs, waits, waited, times, took = values
    return Sum(task, queue, outcome, runs, Spread(waits, waited), Spread(times, took))


# how deep queues are


def packed_depth(census: Census, now: datetime) -> str:
    """One look, as it is written down: how many wait and run on each queue, and how late the oldest is."""
    waiting: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for (_, queue, state), count in census.jobs.items():
        if queue not in ENGINE_QUEUES and state in (State.WAITING, State.RUNNING):
            (waiting if state is State.WAITING else running)[queue] += count
    named = [name for name, _ in (waiting + running).most_common(MOST_QUEUES)]
    rows = [[name, waiting[name], running[name], _late(census, name, now)] for name in named]
    left = [name for name in waiting + running if name not in set(named)]
    if left:
        worst = max(_late(census, name, now) for name in left)
        rows.append(["", sum(waiting[name] for name in left), sum(running[name] for name in left), worst])
    return json.dumps(rows, separators=(",", ":"))


def _late(census: Census, queue: str, now: datetime) -> float:
    due = census.oldest_due.get(queue)
    return 0.0 if due is None else max(0.0, round((now - due).total_seconds(), 1))


def _depths(entries: list[Entry], queue: str | None) -> Depths:
    return [_depth(entry, queue) for entry in sorted(entries, key=lambda entry: entry.at)]


def _depth(entry: Entry, queue: str | None) -> Depth:
    rows = [row for row in json.loads(entry.text) if queue in (None, row[0])]
    return Depth(
        entry.at,
        sum(row[1] for row in rows),
        sum(row[2] for row in rows),
        max((row[3] for row in rows), default=0.0),
    )
