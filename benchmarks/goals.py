"""What Duly should reach, as a table: which figure, compared with what, and the bound.

A goal is read from medians of one run. Where a side of the comparison is missing there is no verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from benchmarks.contenders import POSTGRES, REDIS, SQLITE
from benchmarks.figures import NAMES, Figures


class Reading(Protocol):
    """One number out of all figures of a store."""

    @property
    def name(self) -> str:
        """The figure whose row of the report it belongs to."""
        ...

    def read(self, figures: Figures, store: str) -> float | None: ...

    def bound(self, limit: float) -> str:
        """The goal in words."""
        ...


@dataclass(frozen=True)
class Own:
    """A figure by itself."""

    name: str

    def read(self, figures: Figures, store: str) -> float | None:
        return figures.own(store, self.name)

    def bound(self, limit: float) -> str:
        return f"{limit:g} {NAMES[self.name].unit}"


@dataclass(frozen=True)
class TimesPeer:
    """So many times the best peer; where less is better, the part of it."""

    name: str

    def read(self, figures: Figures, store: str) -> float | None:
        best = figures.best_peer(store, self.name)
        return ratio(figures.own(store, self.name), best[1] if best else None)

    def bound(self, limit: float) -> str:
        return "the best peer" if limit == 1 else f"{limit:g} × the best peer"


@dataclass(frozen=True)
class OfLimit:
    """The part of what the store allows; where it allows that in several ways, in one of them."""

    name: str
    way: str = ""

    def read(self, figures: Figures, store: str) -> float | None:
        return ratio(figures.own(store, self.name), figures.limit(store, self.name + self.way))

    def bound(self, limit: float) -> str:
        return f"{limit:.0%} of the {'raw loop' if self.way else 'limit'}{self.way}"


@dataclass(frozen=True)
class Over:
    """One figure of Duly over another."""

    name: str
    other: str

    def read(self, figures: Figures, store: str) -> float | None:
        return ratio(figures.own(store, self.name), figures.own(store, self.other))

    def bound(self, limit: float) -> str:
        return f"{limit:g} × {self.other}"


@dataclass(frozen=True)
class GainOfLimit:
    """What a second process adds, as a part of what it adds to the raw loop."""

    name: str
    other: str
    way: str = ""

    def read(self, figures: Figures, store: str) -> float | None:
        own = ratio(figures.own(store, self.name), figures.own(store, self.other))
        raw = ratio(figures.limit(store, self.name + self.way), figures.limit(store, self.other + self.way))
        if own is None or raw is None:
            return None
        if raw <= 1:  # a second process gains the raw loop nothing: then it must only not cost
            return 1.0 if own >= 1 else own
        return (own - 1) / (raw - 1)

    def bound(self, limit: float) -> str:
        return f"{limit:.0%} of the gain of the raw loop{self.way}"


@dataclass(frozen=True)
class Goal:
    """A bound for some stores."""

    reading: Reading
    limit: float
    stores: tuple[str, ...]
    is_least: bool = True
    """Whether it is the least that will do, or the most."""

    def __str__(self) -> str:
        return f"{'≥' if self.is_least else '≤'} {self.reading.bound(self.limit)}"

    def is_met(self, figures: Figures, store: str) -> bool | None:
        """Nothing where there is nothing to judge by."""
        found = self.reading.read(figures, store)
        if found is None:
            return None
        return found >= self.limit if self.is_least else found <= self.limit


def ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


EVERYWHERE: Final = (POSTGRES, REDIS, SQLITE)
WITH_EFFECTS: Final = (POSTGRES, SQLITE)


def most(reading: Reading, limit: float, *stores: str) -> Goal:
    return Goal(reading, limit, stores or EVERYWHERE, is_least=False)


def least(reading: Reading, limit: float, *stores: str) -> Goal:
    return Goal(reading, limit, stores or EVERYWHERE)


GOALS: Final = (
    least(OfLimit("enqueue"), 0.7),
    least(Over("enqueue, 8 threads", "enqueue"), 3, *WITH_EFFECTS),
    least(TimesPeer("bulk"), 2),
    least(TimesPeer("drain"), 3.5, POSTGRES),
    least(TimesPeer("drain"), 15, REDIS),
    least(TimesPeer("drain"), 18, SQLITE),
    least(OfLimit("drain", ", one table"), 0.7, POSTGRES),
    least(Over("drain, 2 workers", "drain"), 1, POSTGRES, REDIS),
    least(GainOfLimit("drain, 2 workers", "drain", ", one table"), 0.8, POSTGRES),
    least(GainOfLimit("drain, 2 workers", "drain"), 0.8, REDIS),
    least(Over("drain, sync tasks", "drain"), 0.5),
    least(OfLimit("exactly once"), 0.6, *WITH_EFFECTS),
    least(Over("drain, 1,000,000 queued", "drain, 1,000 queued"), 0.8),
    most(Own("pick-up p50"), 2.2, POSTGRES),
    most(Own("pick-up p50"), 1.0, REDIS),
    most(Own("pick-up p50"), 2.0, SQLITE),
    most(TimesPeer("pick-up p50"), 1),
    most(Over("pick-up p99", "pick-up p50"), 5),
    most(Own("due: first"), 50),
    least(Over("due: rate", "drain, 5,000 queued"), 0.8),
    most(Own("idle: processor"), 0.5),
    most(Own("idle: statements"), 2, POSTGRES, REDIS),
    most(Own("idle: memory"), 45),
    most(Own("import duly"), 100),
    most(Own("worker ready"), 300),
    most(Own("claim under a held snapshot"), 1.5, POSTGRES),
)
