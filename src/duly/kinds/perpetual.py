"""A perpetual task: one job that runs again and again, each cycle with fresh budgets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from duly.kinds import oneshot
from duly.kinds.outcome import Ended, Raised
from duly.lifecycle import Again, Defer, Fail, Stop, TryAgain, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """How a perpetual task goes on."""

    every: timedelta
    automatic: bool = False
    stops_on_failure: bool = False


def decide(ended: Ended, cycle: Cycle) -> Verdict:
    """The next cycle, unless the body stopped it, asked to wait, or has another try in this one."""
    if ended.effects.stops:
        return Stop(ended.ending.error if isinstance(ended.ending, Raised) else None)
    verdict = oneshot.decide(ended)
    if isinstance(verdict, TryAgain | Defer):
        return verdict
    if isinstance(verdict, Fail):
        return Stop(verdict.error) if cycle.stops_on_failure else _next(ended, cycle, verdict.error)
    return _next(ended, cycle, None)


def _next(ended: Ended, cycle: Cycle, error: str | None) -> Again:
    effects = ended.effects
    if effects.again_at is not None:
        return Again(at=effects.again_at, error=error)
    wait = cycle.every if effects.again_after is None else effects.again_after
    return Again(after=wait, error=error)
