"""Points of charts as documents."""

from __future__ import annotations

from typing import Any, Final

from duly.cli.words import stamp
from duly.pulse import BOUNDS, Point, Spread

WELL: Final = frozenset({"done", "again", "stop", "skip"})
BADLY: Final = frozenset({"fail", "retry", "crash", "lost"})
"""Every other outcome (a wait that was asked for, a hand-back, a cancel) is neither."""


def point_row(point: Point) -> dict[str, Any]:
    """One minute."""
    return {
        "at": stamp(point.at),
        "outcomes": dict(point.runs),
        "well": sum(point.runs[outcome] for outcome in WELL),
        "badly": sum(point.runs[outcome] for outcome in BADLY),
        "waited_p50": length(point.waited, 0.5),
        "waited_p95": length(point.waited, 0.95),
        "took_p50": length(point.took, 0.5),
        "took_p95": length(point.took, 0.95),
    }


def length(spread: Spread, part: float) -> float | None:
    """Seconds, at most the last bound: what took longer is only known to have."""
    found = spread.quantile(part)
    return None if found is None else min(found, BOUNDS[-1])
