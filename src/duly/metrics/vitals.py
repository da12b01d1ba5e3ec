"""How a worker is, for probes: whether it can claim, and whether only a new start would help."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """In a word."""

    OK = "ok"
    ARRIVING = "waiting for the store"
    """At the start."""
    AWAY = "the store does not answer"
    FENCED = "the lease is not renewed"
    STOPPING = "stopping"
    ENDED = "ended"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Vitals:
    """One look at a worker."""

    health: Health
    lease_margin: float | None = None
    """Seconds for which it may go on without a renewal; negative once it has stopped its bodies."""
    slots: int = 0
    running: int = 0
    held: int = 0
    """Claims in hand: those that run, those that have not started, those not settled yet."""

    @property
    def can_claim(self) -> bool:
        """It takes work. Anything else is a reason to look."""
        return self.health is Health.OK

    @property
    def is_alive(self) -> bool:
        """A new start would not help: what is away comes back by itself, what stops has been told to."""
        return self.health not in (Health.DEAD, Health.ENDED)
