"""What processes cost, from /proc."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SECOND = 1_000_000_000
GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


@dataclass(frozen=True)
class Cost:
    """Of all processes of a session together."""

    seconds: float
    """On a processor, so far."""
    megabytes: float
    """Resident."""


def of_session(leader: int) -> list[int]:
    """The processes that belong to a session."""
    return [pid for pid in _all() if _session(pid) == leader]


def cost(leader: int) -> Cost:
    found = of_session(leader)
    return Cost(sum(map(_seconds, found)), sum(map(_megabytes, found)))


def _all() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _session(pid: int) -> int | None:
    with suppress(*GONE):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])
    return None


def _seconds(pid: int) -> float:
    """By the scheduler's own account, in nanoseconds: ticks of 10 ms are too coarse for an idle process."""
    total = 0
    with suppress(*GONE):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            total += int((thread / "schedstat").read_text().split()[0])
    return total / SECOND


def _megabytes(pid: int) -> float:
    with suppress(*GONE):
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024
    return 0.0
