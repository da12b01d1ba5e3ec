"""What task bodies leave behind: one slot of shared memory for each job, stamped when its body starts.

A stamp costs about 0.3 µs. So numbers come from bodies that really ran, every job is seen to run, and one
that ran twice is counted. Nothing but the standard library is imported: bodies run in environments of their
own.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

VARIABLE: Final = "BENCH_SLOTS"
SIZE: Final = 16
"""Bytes of a slot: when (8), in which session of processes (4), how often (4)."""
SECOND: Final = 1_000_000_000


class Slots:
    """The slots of one piece of work."""

    def __init__(self, path: Path, amount: int = 0) -> None:
        """With an amount they are made anew, else they are there."""
        if amount:
            path.unlink(missing_ok=True)
            with open(path, "wb") as file:
                file.truncate(SIZE * amount)
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.path = path
        self.amount = amount = len(self._map) // SIZE
        whole = memoryview(self._map)
        self.times = whole[: 8 * amount].cast("q")
        self.sessions = whole[8 * amount : 12 * amount].cast("i")
        self.counts = whole[12 * amount :].cast("i")

    def stamper(
        self, now: Callable[[], int] = time.monotonic_ns, session: int | None = None
    ) -> Callable[[int], None]:
        """What a body calls with the number of its job. A worker may be killed at any moment: what has a time
        has a session, too."""
        times, sessions, counts = self.times, self.sessions, self.counts
        session = os.getsid(0) if session is None else session

        def stamp(number: int) -> None:
            if not counts[number]:
                sessions[number] = session
                times[number] = now()
            counts[number] += 1

        return stamp

    def close(self) -> None:
        for view in (self.times, self.sessions, self.counts):
            view.release()
        self._map.close()
        self.path.unlink(missing_ok=True)

    def forget(self, amount: int) -> None:
        """Make the first ones new again."""
        for view in (self.times, self.sessions, self.counts):
            view[:amount].cast("B")[:] = bytes(amount * view.itemsize)

    def ran(self, start: int, amount: int) -> int:
        """How many of these jobs have started."""
        return amount - self.times[start : start + amount].tolist().count(0)

    def twice(self, start: int, amount: int) -> int:
        """How many of them ran more than once."""
        return sum(1 for count in self.counts[start : start + amount].tolist() if count > 1)

    def stamps(self, start: int, amount: int) -> list[int]:
        """When the ones that ran did, in order, by the monotonic clock."""
        return sorted(filter(None, self.times[start : start + amount].tolist()))

    def rate(self, start: int, amount: int) -> float:
        """Jobs a second from the moment on at which every worker has run one; 0 if too few ran."""
        firsts: dict[int, int] = {}
        for when, session in zip(
            self.times[start : start + amount], self.sessions[start : start + amount], strict=True
        ):
            if when and when < firsts.get(session, when + 1):
                firsts[session] = when
        counted = [when for when in self.stamps(start, amount) if when >= max(firsts.values())]
        if len(counted) < 2 or counted[-1] == counted[0]:
            return 0.0
        return (len(counted) - 1) * SECOND / (counted[-1] - counted[0])

    def wait(self, start: int, amount: int, *, at_most: float, patience: float = 25.0) -> int:
        """Until all have run, but `at_most` so long after the first; answers how many ran."""
        began, first = time.monotonic(), 0.0
        while not self._have_run(start, amount):
            now = time.monotonic()
            first = first or (now if self._has_begun(start, amount) else 0.0)
            if now - (first or began) > (at_most if first else patience):
                break
            time.sleep(0.02)
        return self.ran(start, amount)

    def _have_run(self, start: int, amount: int) -> bool:
        """Looks at one slot most of the time: who measures must not take part in the work."""
        return bool(self.times[start + amount - 1]) and self.ran(start, amount) == amount

    def _has_begun(self, start: int, amount: int) -> bool:
        return any(self.times[start : start + min(amount, 2000)])


def given() -> Slots:
    """Those of the piece of work this process is part of."""
    return Slots(Path(os.environ[VARIABLE]))
