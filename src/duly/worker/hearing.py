"""What running bodies say before they end: how far they are, and that their task should be held."""

from __future__ import annotations

import json
import logging
import time
from collections import deque
from typing import Final

from duly.app import App
from duly.errors import StoreUnavailable
from duly.job import Fence
from duly.signals import Progress, Signal, Throttle
from duly.stores.contract import Scope, Switch
from duly.worker.bench import Bench
from duly.worker.hand import Holding
from duly.worker.lanes import Lanes

log = logging.getLogger("duly.worker")

REPORT_EVERY: Final = 0.5


class Hearing:
    """Takes signals from any thread; the pump sends them on."""

    def __init__(self, app: App, lanes: Lanes, bench: Bench) -> None:
        self._app = app
        self._store = app.store
        self._lanes = lanes
        self._bench = bench
        self._signals: deque[tuple[Holding, Signal]] = deque()
        self._progress: dict[Fence, str] = {}
        self._report_at = 0.0

    def take(self, holding: Holding, signal: Signal) -> None:
        """Progress or a throttle from a running body."""
        self._signals.append((holding, signal))

    @property
    def has_news(self) -> bool:
        """Something was said."""
        return bool(self._signals)

    @property
    def has_something_to_send(self) -> bool:
        """Said now, or put off before."""
        return bool(self._signals or self._progress)

    def send(self) -> None:
        """Throttles at once, progress now and then."""
        while self._signals:
            holding, signal = self._signals.popleft()
            if isinstance(signal, Throttle):
                self._throttle(signal)
            else:
                self._progress[holding.fence] = packed_progress(signal)
        if self._progress and time.monotonic() >= self._report_at:
            self._report()

    def _report(self) -> None:
        """Told again later where the store was away: a body may say no more than this until its end."""
        self._report_at = time.monotonic() + REPORT_EVERY
        progress, self._progress = self._progress, {}
        try:
            self._store.run(self._store.report(progress))
        except StoreUnavailable:
            self._progress = progress
            raise

    def _throttle(self, signal: Throttle) -> None:
        """For all workers; for this process alone when asked to, or when the store cannot be told."""
        if signal.scope == "process" or not self._hold_everywhere(signal):
            self._lanes.throttle(signal.task, time.monotonic() + signal.wait.total_seconds())
        self._bench.return_unstarted(
            lambda holding: holding.claim.task == signal.task, "its task was throttled before it started"
        )

    def _hold_everywhere(self, signal: Throttle) -> bool:
        switch = Switch(Scope.TASK, signal.task, self._app.clock.now() + signal.wait, signal.reason)
        try:
            self._store.run(self._store.hold(switch))
        except StoreUnavailable as error:
            log.warning("throttle of %s holds in this process only: %s", signal.task, error)
            return False
        return True


def packed_progress(progress: Progress) -> str:
    """As it is stored and shown."""
    return json.dumps({"done": progress.done, "total": progress.total, "message": progress.message})
