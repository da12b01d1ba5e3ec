"""The only place that asks the machine what time it is.

Everything else is given a `Clock` or a `now`, so a test can move time and a decision can be repeated.
Wall time says when work is due; boot time says how long something took, and never steps.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final, Protocol

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """Two readings: one to agree with people, one to measure with."""

    def now(self) -> datetime:
        """The wall time, aware, in UTC."""
        ...

    def boot(self) -> float:
        """Seconds since the machine started, sleep included; the same for all its processes."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def boot(self) -> float:
        return _since_boot()


@cache
def boot_id() -> str:
    """Names this start of the machine: boot times with different names cannot be compared."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return _estimated_boot_id()


def _estimated_boot_id() -> str:
    """Where the kernel gives no name, the minute of the start must do: two processes may differ by
    one, which only means that a lease is judged by wall time."""
    started = time.time() - _since_boot()
    return f"boot-{round(started / 60)}"


def _since_boot() -> float:
    # A suspended laptop stops CLOCK_MONOTONIC on Linux but not CLOCK_BOOTTIME: leases must go on ending.
    return time.clock_gettime(_BOOT_CLOCK) if _BOOT_CLOCK is not None else time.monotonic()


_BOOT_CLOCK: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)
