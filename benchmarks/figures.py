"""What was measured: samples by store, system and name, their medians, and the file they are kept in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks.contenders import DULY, RAW


class Name(NamedTuple):
    """What a figure says, and in what."""

    title: str
    unit: str
    is_larger_better: bool = True
    decimals: int = 0


NAMES: Final = {
    name.title: name
    for name in (
        Name("enqueue", "calls/s"),
        Name("enqueue, store alone", "calls/s"),
        Name("enqueue, 8 threads", "calls/s"),
        Name("enqueue, 8 threads, shared commits", "calls/s"),
        Name("bulk", "jobs/s"),
        Name("drain", "jobs/s"),
        Name("drain, store alone", "jobs/s"),
        Name("drain, one table", "jobs/s"),
        Name("drain, 2 workers", "jobs/s"),
        Name("drain, 2 workers, one table", "jobs/s"),
        Name("drain, sync tasks", "jobs/s"),
        Name("drain, sync tasks of 1 ms", "jobs/s"),
        Name("exactly once", "jobs/s"),
        Name("exactly once, store alone", "jobs/s"),
        Name("exactly once, 1 connection", "jobs/s"),
        Name("drain, 1,000 queued", "jobs/s"),
        Name("drain, 5,000 queued", "jobs/s"),
        Name("drain, 20,000 queued", "jobs/s"),
        Name("drain, 200,000 queued", "jobs/s"),
        Name("drain, 1,000,000 queued", "jobs/s"),
        Name("pick-up p50", "ms", is_larger_better=False, decimals=2),
        Name("pick-up p50, store alone", "ms", is_larger_better=False, decimals=2),
        Name("pick-up p95", "ms", is_larger_better=False, decimals=2),
        Name("pick-up p99", "ms", is_larger_better=False, decimals=2),
        Name("due: first", "ms", is_larger_better=False),
        Name("due: p50", "ms", is_larger_better=False),
        Name("due: last", "ms", is_larger_better=False),
        Name("due: rate", "jobs/s"),
        Name("idle: processor", "% of a core", is_larger_better=False, decimals=2),
        Name("idle: statements", "/s", is_larger_better=False, decimals=1),
        Name("idle: memory", "MB", is_larger_better=False),
        Name("import duly", "ms", is_larger_better=False),
        Name("worker ready", "ms", is_larger_better=False),
        Name("schedules: ready after", "s", is_larger_better=False, decimals=1),
        Name("schedules: ticks run", "%", decimals=1),
        Name("schedules: late p50", "ms", is_larger_better=False),
        Name("schedules: late p99", "ms", is_larger_better=False),
        Name("schedules: processor", "% of a core", is_larger_better=False),
        Name("claim under a held snapshot", "× an empty store", is_larger_better=False, decimals=2),
        Name("update of a followed table", "× a plain one", is_larger_better=False, decimals=2),
        Name("changes planned", "changes/s"),
        Name("pick-up while planning", "× idle", is_larger_better=False, decimals=2),
    )
}


@dataclass(frozen=True)
class Sample:
    """One reading of one piece of work."""

    store: str
    system: str
    work: str
    repetition: int
    name: str
    value: float


@dataclass(frozen=True)
class Failure:
    """A piece of work that could not be done."""

    store: str
    system: str
    work: str
    repetition: int
    reason: str


@dataclass(frozen=True)
class Spread:
    """A few readings of the same thing."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def least(self) -> float:
        return min(self.values)

    @property
    def most(self) -> float:
        return max(self.values)


@dataclass
class Figures:
    """All of a run."""

    samples: list[Sample] = field(default_factory=list[Sample])
    failures: list[Failure] = field(default_factory=list[Failure])
    about: dict[str, Any] = field(default_factory=dict[str, Any])
    """Versions, settings, the machine."""

    def spread(self, store: str, system: str, name: str) -> Spread | None:
        values = tuple(
            each.value
            for each in self.samples
            if (each.store, each.system, each.name) == (store, system, name)
        )
        return Spread(values) if values else None

    def middle(self, store: str, system: str, name: str) -> float | None:
        found = self.spread(store, system, name)
        return found.median if found else None

    def own(self, store: str, name: str) -> float | None:
        return self.middle(store, DULY, name)

    def limit(self, store: str, name: str) -> float | None:
        return self.middle(store, RAW, name)

    def systems(self, store: str) -> list[str]:
        """In the order in which they came."""
        return list(dict.fromkeys(each.system for each in self._rows() if each.store == store))

    def peers(self, store: str) -> list[str]:
        return [system for system in self.systems(store) if system not in (DULY, RAW)]

    def best_peer(self, store: str, name: str) -> tuple[str, float] | None:
        """Who is best at something, and how good."""
        found = [
            (value, peer)
            for peer in self.peers(store)
            if (value := self.middle(store, peer, name)) is not None
        ]
        if not found:
            return None
        value, peer = (max if NAMES[name].is_larger_better else min)(found)
        return peer, value

    def has(self, store: str, system: str, work: str, repetition: int) -> bool:
        """Whether that was measured, or found to have nothing to measure."""
        key = (store, system, work, repetition)
        return any((each.store, each.system, each.work, each.repetition) == key for each in self.samples)

    def forget(self, store: str, system: str, work: str, repetition: int) -> None:
        """Room for measuring it anew."""
        key = (store, system, work, repetition)

        def stays(each: Sample | Failure) -> bool:
            return (each.store, each.system, each.work, each.repetition) != key

        self.samples = [each for each in self.samples if stays(each)]
        self.failures = [each for each in self.failures if stays(each)]

    def _rows(self) -> Iterator[Sample | Failure]:
        yield from self.samples
        yield from self.failures


def load(path: Path) -> Figures:
    """What an earlier run left there, if anything."""
    if not path.exists():
        return Figures()
    document = json.loads(path.read_text(encoding="utf-8"))
    return Figures(
        [Sample(**each) for each in document["samples"]],
        [Failure(**each) for each in document["failures"]],
        document["about"],
    )


def save(figures: Figures, path: Path) -> None:
    """All at once: a run that is broken off leaves a whole file."""
    document = {
        "about": figures.about,
        "samples": [vars(each) for each in figures.samples],
        "failures": [vars(each) for each in figures.failures],
    }
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    part.replace(path)
