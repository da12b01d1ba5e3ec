"""What the pump does beside its work, each thing now and then: seed, prune, write the pulse down."""

from __future__ import annotations

import time
from typing import Final

from duly.app import App
from duly.converse import converse
from duly.ids import spread
from duly.schedules import register
from duly.worker.seeds import seeds
from duly.worker.sounding import Sounding
from duly.worker.tally import Tally

SEED_EVERY = 60.0
PRUNE_EVERY: Final = 30.0
PRUNE_BATCH: Final = 500


class Chores:
    """Timers by our own clock; whatever fails is tried again at the next turn."""

    def __init__(self, app: App, worker: str) -> None:
        self._app = app
        self._store = app.store
        self.tally = Tally(app.store, worker, time.monotonic)
        self._sounding = Sounding(app.store, self.tally.now, time.monotonic)
        self._seed_at = 0.0
        self._prune_at = time.monotonic() + PRUNE_EVERY * spread()
        self._is_registered = False

    @property
    def next_at(self) -> float:
        """When one of them is due."""
        return min(self._seed_at, self._prune_at, self.tally.due, self._sounding.due)

    def finish_due(self, *, is_draining: bool) -> bool:
        """Whether jobs may have appeared by it."""
        now = time.monotonic()
        if now >= self.tally.due:
            self.tally.write()
        if is_draining:
            self._seed_at = self._prune_at = self._sounding.due = now + SEED_EVERY
            return False
        if now >= self._sounding.due:
            self._sounding.take()
        if now >= self._prune_at:
            pruned = self._store.run(self._store.prune(PRUNE_BATCH))
            self._prune_at = now + (0.5 if pruned >= PRUNE_BATCH else PRUNE_EVERY * (0.75 + spread() / 2))
        return now >= self._seed_at and self._seed(now)

    def _seed(self, now: float) -> bool:
        """Automatic perpetuals and schedules exist, whatever became of their jobs meanwhile."""
        if not self._is_registered:
            converse(self._store, register(self._store, self._app.schedule_terms))
            self._is_registered = True
        requests = seeds(self._app)
        if requests:
            self._store.run(self._store.put(requests))
        self._seed_at = now + SEED_EVERY * (0.75 + spread() / 2)
        return bool(requests)
