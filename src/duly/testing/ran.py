"""What a test learns about each run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from duly import codec
from duly.errors import DulyError
from duly.job import Claim, State
from duly.lifecycle import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One run: what it was called with, and what became of it."""

    id: str
    task: str
    key: str | None
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    attempt: int
    at: datetime
    """When it was claimed."""
    tick: datetime | None
    outcome: str
    """done, again, retry, defer, release, fail, skip or stop; lost or superseded where the store refused
    it; crashed or frozen where the test said so."""
    state: State | None
    """The job's state afterwards; None when it was deleted."""
    error: str | None = None
    """The traceback of a body that raised."""
    exception: BaseException | None = field(default=None, compare=False, repr=False)
    verdict: Verdict | None = field(default=None, repr=False)

    def __str__(self) -> str:
        error = f": {self.error.splitlines()[-1]}" if self.error else ""
        return f"{call_text(self.task, self.args, self.kwargs)} {self.outcome}{error}"


def call_of(arguments: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as they were given; empty where they cannot be rebuilt, which the run itself will tell."""
    try:
        return codec.unpack(arguments)
    except DulyError:
        return (), {}


def call_text(task: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """A call as one writes it."""
    parts = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
    return f"{task}({', '.join(parts)})"


def record(
    claim: Claim,
    at: datetime,
    outcome: str,
    state: State | None,
    *,
    error: str | None = None,
    exception: BaseException | None = None,
    verdict: Verdict | None = None,
) -> Ran:
    """A run as it is told."""
    args, kwargs = call_of(claim.arguments)
    return Ran(
        id=claim.id,
        task=claim.task,
        key=claim.key,
        args=args,
        kwargs=kwargs,
        attempt=claim.attempt + 1,
        at=at,
        tick=claim.tick,
        outcome=outcome,
        state=state,
        error=error,
        exception=exception,
        verdict=verdict,
    )
