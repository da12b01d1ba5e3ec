"""How many unstarted claims are worth holding: a moment's work, at the pace at which runs end here."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST_BATCH = 500
ENOUGH = LARGEST_BATCH // 2
"""Ends that wait no longer for company. Where they waited for a whole batch, a quick store idled: a busy loop
gives up the interpreter only every 5 ms, so whoever waits for the last few of them gets there late."""
MOST_BUFFERED = 2 * LARGEST_BATCH
"""One batch to run while the store settles the last one and lends the next."""
BUFFERED_SECONDS = 0.5
"""How much work may wait unstarted in this process, measured in time at the current pace."""

GLIMPSE = 0.002
"""Seconds of which one look at the pace is made."""
MEMORY = 0.25
"""Seconds that the pace is an average of. With a whole one, and looks of 50 ms, a burst of 5,000 short bodies
was over before the pace was known: 39,000 jobs a second instead of 56,000."""


@dataclass(slots=True)
class Tempo:
    """How fast runs end here, to know how many unstarted claims are worth holding."""

    per_second: float = 0.0
    since: float = 0.0
    ended: int = 0

    def note(self, count: int, now: float) -> None:
        """Runs that just ended; an average over about `MEMORY`."""
        self.ended += count
        span = now - self.since
        if span >= GLIMPSE:
            weight = min(1.0, span / MEMORY)
            self.per_second += (self.ended / span - self.per_second) * weight
            self.ended, self.since = 0, now

    def buffer(self, slots: int) -> int:
        """Nothing while runs are slow; up to two batches when they are quick."""
        if self.per_second <= 2 * slots:
            return 0
        return min(MOST_BUFFERED, int(self.per_second * BUFFERED_SECONDS))
