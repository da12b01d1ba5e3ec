"""Deaths and freezes that a test asks for, at the five named points of a run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from duly.errors import DefinitionError
from duly.failpoints import POINTS
from duly.job import Claim
from duly.testing.worker import Point

T = TypeVar("T")


@dataclass(slots=True, kw_only=True, eq=False)
class Fault(Generic[T]):
    """Something that strikes runs at one point."""

    point: Point
    brings: T
    """What happens to the run it strikes."""
    task: str | None = None
    key: str | None = None
    nth: int | None = None
    arrivals: int = 0
    strikes: int = 0

    def __post_init__(self) -> None:
        if self.point not in POINTS:
            raise DefinitionError(f"No point of a run is named {self.point!r}. Points: {', '.join(POINTS)}.")
        if self.nth is not None and self.nth < 1:
            raise DefinitionError(f"nth={self.nth!r} counts arrivals from 1.")

    def meets(self, point: Point, claim: Claim) -> bool:
        """Whether it strikes this arrival; every arrival is counted."""
        if point != self.point or self.task not in (None, claim.task) or self.key not in (None, claim.key):
            return False
        self.arrivals += 1
        if self.nth not in (None, self.arrivals):
            return False
        self.strikes += 1
        return True

    def must_have_struck(self) -> None:
        """A fault that never struck would let its test pass for nothing."""
        if not self.strikes:
            whose = f"no run of {self.task}" if self.task else "no run"
            key = f" with key {self.key!r}" if self.key else ""
            often = f" {self.nth} times" if self.nth else ""
            raise AssertionError(f"{whose[:1].upper()}{whose[1:]}{key} reached {self.point}{often}.")


class Faults(Generic[T]):
    """Those in force, in the order they were asked for."""

    def __init__(self) -> None:
        self._faults: list[Fault[T]] = []

    @contextmanager
    def armed(self, fault: Fault[T]) -> Generator[None, None, None]:
        """In force while the block lasts; it must have struck by then."""
        self._faults.append(fault)
        try:
            yield
        finally:
            self._faults.remove(fault)
        fault.must_have_struck()

    def at(self, point: Point, claim: Claim) -> T | None:
        """What strikes a run here, if anything."""
        struck = [fault.brings for fault in self._faults if fault.meets(point, claim)]
        return struck[0] if struck else None
