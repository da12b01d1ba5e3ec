"""What a store tells people beside single jobs. Everything here is bounded, however much is stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from duly.job import Job
from duly.lifecycle import legible

LATEST: Final = 10_000
"""Groups are made of so many of the latest failures: an older one whose kind stopped is not looked for."""
COUNTED: Final = 10_000
"""Where counting a group ends: whoever reads this number knows that there are at least so many."""
TASKS_OF: Final = 100
"""The newest jobs of a group, whose tasks are named."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Jobs whose last error has the same fingerprint, failed for good or to be tried again."""

    fingerprint: str
    count: int
    """At most `COUNTED`."""
    first_seen: datetime
    """When the oldest of them failed."""
    last_seen: datetime
    """When one of them failed last."""
    tasks: tuple[str, ...]
    sample: Job
    """The newest of them."""


class Entry(NamedTuple):
    """A line of a diary: what was written down, when, and its place in the order of all."""

    number: int
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for, how far, and from where on."""

    text: str
    """A part of the key, the arguments as they are stored, or the error; in any case."""
    limit: int = 50
    depth: int = 20_000
    """So many jobs are looked at, at most; whoever wants more goes on from `Found.next`."""
    before: int | None = None

    def fits(self, *texts: str | None) -> bool:
        """Whether it is part of one of these."""
        wanted = legible(self.text).lower()
        return any(wanted in text.lower() for text in texts if text is not None)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, newest request first."""

    jobs: list[Job]
    next: int | None
    """The generation to go on from; None when every job has been looked at."""


def expiry_words(expires_at: datetime | None) -> str:
    """When a job is too late to be run, for `explain`."""
    return "it never expires" if expires_at is None else f"expires at {expires_at.isoformat()}"
