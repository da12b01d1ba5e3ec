"""Time that stands still until a test moves it.

Wall time and boot time are kept apart, as on a real machine: `advance` lets both pass, `step_wall`
is somebody setting the clock, which no lease may notice.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Final

from duly.durations import Duration, duration

START: Final = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
"""A Monday noon: far from midnight, month's end and every change of summer time."""

_UPTIME: Final = timedelta(hours=10)  # a machine is never asked for the time in its first second


class VirtualClock:
    """A clock for tests, safe to share between threads."""

    def __init__(self, start: datetime = START) -> None:
        self._lock = threading.Lock()
        self._now = start
        self._uptime = _UPTIME

    def now(self) -> datetime:
        """The wall time."""
        with self._lock:
            return self._now

    def boot(self) -> float:
        """Seconds since the imagined machine started."""
        with self._lock:
            return self._uptime.total_seconds()

    def advance(self, span: Duration) -> datetime:
        """Let time pass, and say what time it is then."""
        passed = duration(span, what="advance")
        with self._lock:
            self._now += passed
            self._uptime += passed
            return self._now

    def step_wall(self, by: timedelta) -> datetime:
        """Set the wall clock forward or back; no time passes."""
        with self._lock:
            self._now += by
            return self._now
