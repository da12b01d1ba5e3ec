"""A worker's own sums, by the minute, until they are written down for the charts.

Touched by the pump's thread alone. A run costs a look into a dictionary and two buckets.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import groupby
from typing import Final

from duly.errors import StoreError
from duly.lifecycle import EVENTS, Done
from duly.pulse import KEPT, KIND, Sum, packed
from duly.stores.contract import Store
from duly.worker.hand import Holding, waits_of

log = logging.getLogger("duly.worker")

EVERY: Final = 10.0
"""Seconds between two writes: what a chart may lag, and what a killed worker takes along."""
MOST: Final = 500
"""Sums of one minute: a thousand tasks are told apart by their queues alone."""

NEVER: Final = float("inf")

DONE: Final = EVENTS[Done]

Sums = dict[tuple[str, str, str], Sum]


def _lane(holding: Holding) -> tuple[str, str]:
    return holding.claim.task, holding.claim.queue


class Tally:
    """What this worker has run."""

    def __init__(self, store: Store, worker: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._worker = worker
        self._monotonic = monotonic
        self._ahead: float | None = None
        """The store's clock less ours; None before the store has told its time."""
        self._minutes: dict[int, Sums] = {}
        self._numbers: dict[int, int] = {}
        """Where the sums of a minute are written down already."""
        self.due = NEVER
        """When to write next, monotonic: some seconds after the first run that is not written down."""

    def set_clock(self, now: datetime | None, read_at: float) -> None:
        """What the store said the time was, and when that was by our own clock."""
        if now is not None:
            self._ahead = now.timestamp() - read_at

    def now(self) -> datetime | None:
        """The time by the store's clock; None before it has told it."""
        if self._ahead is None:
            return None
        return datetime.fromtimestamp(self._monotonic() + self._ahead, UTC)

    def note(self, task: str, queue: str, outcome: str, wait: float | None, took: float | None) -> None:
        """A run ended."""
        sums = self._current()
        if sums is not None:
            one = sums.get((task, queue, outcome)) or self._begin(sums, task, queue, outcome)
            one.note(wait, took)

    def note_done(self, holdings: Iterable[Holding], settled_at: float) -> None:
        """Runs that ended well, and were settled at that moment: nearly all, so all at once."""
        sums = self._current()
        if sums is None:
            return
        for (task, queue), lane in groupby(holdings, _lane):
            one = sums.get((task, queue, DONE)) or self._begin(sums, task, queue, DONE)
            runs = list(lane)
            one.note_all(len(runs), waits_of(runs), [settled_at - run.started for run in runs])

    def _current(self) -> Sums | None:
        """Of this minute; None before the store has told its time."""
        if self._ahead is None:
            return None
        now = self._monotonic()
        if self.due == NEVER:
            self.due = now + EVERY
        minute = int((now + self._ahead) // 60)
        sums = self._minutes.get(minute)
        if sums is None:
            sums = self._minutes[minute] = {}
        return sums

    def _begin(self, sums: Sums, task: str, queue: str, outcome: str) -> Sum:
        name = task if len(sums) < MOST else ""
        return sums.setdefault((name, queue, outcome), Sum(name, queue, outcome))

    def write(self) -> None:
        """Write down what has changed; minutes that are over are then done with."""
        if self.due == NEVER:
            return
        current = max(self._minutes, default=0)
        for minute, sums in list(self._minutes.items()):
            text = packed(minute, self._worker, sums.values())
            number = self._numbers.get(minute)
            self._numbers[minute] = self._store.run(self._store.jot(KIND, text, keep=KEPT, number=number))
            if minute < current:
                del self._minutes[minute], self._numbers[minute]
        self.due = NEVER

    def write_last(self) -> None:
        """Before leaving: charts are not worth an error."""
        try:
            self.write()
        except StoreError as error:
            log.debug("the last sums were not written down: %s", error)
