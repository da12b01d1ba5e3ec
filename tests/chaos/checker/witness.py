"""What a check says when an invariant does not hold: the smallest set of events that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from tests.chaos.checker.history import History


@dataclass(frozen=True, slots=True)
class Witness:
    """One violation."""

    invariant: str
    says: str
    events: tuple[Any, ...] = ()

    def text(self) -> str:
        """For people, one event per line, in the order of time."""
        lines = [f"{self.invariant}: {self.says}"]
        lines += [f"    {_shown(event)}" for event in sorted(self.events, key=_moment)]
        return "\n".join(lines)


Check = Callable[[History], Iterator[Witness]]


def smallest(witnesses: Iterable[Witness]) -> list[Witness]:
    """One per invariant: the one with the fewest events, else the first."""
    best: dict[str, Witness] = {}
    for witness in witnesses:
        known = best.get(witness.invariant)
        if known is None or len(witness.events) < len(known.events):
            best[witness.invariant] = witness
    return list(best.values())


def _moment(event: Any) -> float:
    for name in ("called", "started", "begun", "asked", "born", "seen"):
        value = getattr(event, name, None)
        if isinstance(value, float | int):
            return float(value)
    return float("inf")


def _shown(event: Any) -> str:
    if not is_dataclass(event) or isinstance(event, type):
        return str(event)
    words = [
        f"{name}={_value(value)}" for name, value in asdict(event).items() if value not in (None, "", ())
    ]
    return f"{type(event).__name__.lower():8} {' '.join(words)}"


def _value(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
