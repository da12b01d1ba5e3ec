"""How a body ended, before anybody decided what that means."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from duly.job import Claim, Request
from duly.options import Options


@dataclass(slots=True)
class Effects:
    """What the body asked for while it ran. Honoured also when it raises afterwards."""

    again_after: timedelta | None = None
    again_at: datetime | None = None
    stops: bool = False
    defers: timedelta | None = None
    requests: list[Request] = field(default_factory=list[Request])
    """Requests for the run's own key: part of its settle, under its fence."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The body came back; its value is packed already (or None when results are not kept)."""

    result: str | None = None


@dataclass(frozen=True, slots=True)
class Raised:
    """The body raised. `retry_after` is set when the policy grants another try."""

    error: str
    retry_after: timedelta | None = None
    skips: bool = False
    reason: str = "failed"


Ending = Returned | Raised


@dataclass(frozen=True, slots=True)
class Ended:
    """Everything a kind needs to decide."""

    options: Options
    claim: Claim
    ending: Ending
    effects: Effects
