"""What a run says before it ends, because it cannot wait for its end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run says it is."""

    done: float
    total: float | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Throttle:
    """A wish to hold a task's lane, for this process or for all."""

    task: str
    wait: timedelta
    scope: Literal["cluster", "process"] = "cluster"
    reason: str = ""


Signal = Progress | Throttle
"""What cannot wait for the run's end."""
