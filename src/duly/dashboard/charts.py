"""Points and marks of charts as documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from duly.cli.words import stamp
from duly.pulse import BOUNDS, Point, Spread
from duly.stores.contract import Attendance, WorkerCard

WELL: Final = frozenset({"done", "again", "stop", "skip"})
BADLY: Final = frozenset({"fail", "retry", "crash", "lost"})
"""Every other outcome (a wait that was asked for, a hand-back, a cancel) is neither."""


APART: Final = timedelta(minutes=1)
"""Starts that follow each other more closely are one mark: a deploy restarts workers one after the other."""
MARKS: Final = 5
"""The latest: workers that are recycled start all day."""


class Mark(NamedTuple):
    """When workers that live were started, which is where a deploy shows."""

    at: datetime
    """The first of them."""
    workers: int
    version: str
    """Of Duly, where it is another than that of the workers before."""

    @property
    def label(self) -> str:
        """As it stands beside its line."""
        return f"{self.workers} started" + (f", {self.version}" if self.version else "")


def marks(workers: Iterable[Attendance]) -> list[Mark]:
    """Oldest first."""
    found: list[list[WorkerCard]] = []
    cards = (one.card for one in workers if one.has_lease)
    for card in sorted(cards, key=lambda card: card.started_at):
        if found and card.started_at - found[-1][-1].started_at <= APART:
            found[-1].append(card)
        else:
            found.append([card])
    before = [_version(found[0]), *map(_version, found)] if found else []
    made = [_mark(cards, version) for cards, version in zip(found, before, strict=False)]
    return made[-MARKS:]


def _mark(cards: Sequence[WorkerCard], before: str) -> Mark:
    version = _version(cards)
    return Mark(cards[0].started_at, len(cards), version if version != before else "")


def _version(cards: Sequence[WorkerCard]) -> str:
    return cards[-1].version


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
