"""What a worker says about a store that is away: that it is, that it still is, and that it is back.

The pump and the heartbeat meet the same outage, several times a second; a person wants to read of it once.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Final

from duly.errors import StoreError

log = logging.getLogger("duly.worker")

SAY_EVERY: Final = 5.0
"""Seconds between two lines about one outage."""
QUIET: Final = 2.0
"""Seconds between the first lines about two of them: a server may come and go all the time."""
SHORTEST: Final = 0.05
LONGEST: Final = 2.0


def backoff(failures: int, spread: float) -> float:
    """Seconds before the next try: double per failure up to the cap, less up to half of it for the crowd."""
    return float(min(LONGEST, SHORTEST * 2 ** min(failures, 10)) * (1 - spread / 2))


class Outage:
    """One worker's view of its store's absences. Safe to tell from several threads."""

    def __init__(self, what: str = "the store", monotonic: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._now = monotonic
        self._mutex = threading.Lock()
        self._since: float | None = None
        self._told_at = -math.inf
        self._is_told = False

    def noted(self, error: StoreError) -> None:
        """A call failed."""
        with self._mutex:
            now = self._now()
            if self._since is None:
                self._since = now
            if now < self._told_at + (SAY_EVERY if self._is_told else QUIET):
                return
            away = now - self._since
            self._is_told, self._told_at = True, now
        so_far = f" ({away:.0f} s so far)" if away >= 1 else ""
        log.warning("%s is away%s, trying again: %s", self._what, so_far, error)

    def over(self) -> None:
        """A call succeeded."""
        with self._mutex:
            since, is_told = self._since, self._is_told
            self._since, self._is_told = None, False
        if since is not None and is_told:
            log.warning("%s is back after %.1f s", self._what, self._now() - since)
