"""The live stream: one look at the store for everybody who watches, and a short memory of those looks.

The memory is what this process saw while somebody watched, every other second; it is bounded. What was
before it comes from the workers, who write down how deep queues are every half minute.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final, NamedTuple

from starlette.concurrency import run_in_threadpool

from duly.cli.words import stamp
from duly.dashboard.charts import marks
from duly.dashboard.desk import Desk, Summary
from duly.job import State

BEAT: Final = timedelta(seconds=2)
LONGEST: Final = timedelta(minutes=10)
"""A stream ends after this, so that a session that is over is noticed when the browser comes back."""
STREAMS: Final = 100
REMEMBERED: Final = 600
"""Samples: 20 minutes of beats."""


class Sample(NamedTuple):
    """What one look saw."""

    at: datetime
    waiting: int
    running: int
    late: float
    """Seconds by which the oldest ready job is late."""


@dataclass
class Live:
    """Takes looks and hands them out."""

    desk: Desk
    beat: timedelta = BEAT
    longest: timedelta = LONGEST
    samples: deque[Sample] = field(default_factory=lambda: deque[Sample](maxlen=REMEMBERED))
    streams: int = 0

    def look(self) -> dict[str, Any]:
        """The state of everything, small enough to be sent every other second."""
        summary = self.desk.summary()
        sample = _sample(summary)
        if not self.samples or self.samples[-1].at < sample.at:
            self.samples.append(sample)
        return {
            "now": stamp(summary.seen.now),
            "version": version(summary),
            "jobs": {str(state): count for state in State if (count := summary.count(state)) is not None},
            "workers": len(summary.live_workers),
            "alarms": len(summary.alarms),
            "sample": _plain(sample),
            "marks": [[round(mark.at.timestamp(), 1), mark.label] for mark in marks(summary.seen.workers)],
        }

    def version(self) -> str:
        """Of the last look, which is not younger than a page that is made after it."""
        return version(self.desk.summary())

    def everything(self) -> dict[str, Any]:
        """A look, with all samples."""
        found, seen = self.look(), list(self.samples)
        earlier = [Sample(*depth) for depth in self.desk.depths() if depth.at < seen[0].at]
        return {**found, "samples": [_plain(sample) for sample in (*earlier, *seen)]}

    async def stream(self, is_gone: Callable[[], Awaitable[bool]]) -> AsyncGenerator[str]:
        """Server-sent events until the browser leaves or the stream has lasted long enough."""
        self.streams += 1
        try:
            for _ in range(max(1, round(self.longest / self.beat))):
                found = await run_in_threadpool(self.look)
                yield f"event: look\ndata: {json.dumps(found)}\n\n"
                await asyncio.sleep(self.beat.total_seconds())
                if await is_gone():
                    return
        finally:
            self.streams -= 1

    @property
    def is_full(self) -> bool:
        """Whether further browsers should poll instead."""
        return self.streams >= STREAMS


def drain(samples: Sequence[Sample]) -> timedelta | None:
    """When the waiting jobs will be gone at the rate of the last looks; None if they will not."""
    if len(samples) < 5:
        return None
    first, last = samples[max(0, len(samples) - 60)], samples[-1]
    gone = first.waiting - last.waiting
    if gone <= 0 or not last.waiting or not last.late:  # what is not due yet is no backlog
        return None
    return (last.at - first.at) * (last.waiting / gone)


def version(summary: Summary) -> str:
    """Differs when a page would: browsers fetch again only then."""
    seen = summary.seen
    facts = [
        sorted((str(key), count) for key, count in seen.census.jobs.items()),
        sorted((one.card.id, one.has_lease) for one in seen.workers),
        sorted((switch.name, str(switch.until)) for switch in seen.switches),
    ]
    return sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _sample(summary: Summary) -> Sample:
    totals: Counter[State] = summary.totals
    late = summary.late.total_seconds()
    return Sample(summary.seen.now, totals[State.WAITING], totals[State.RUNNING], round(late, 1))


def _plain(sample: Sample) -> list[float]:
    return [round(sample.at.timestamp(), 1), sample.waiting, sample.running, sample.late]
