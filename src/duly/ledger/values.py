"""What is said about receipts: where one stands, who claims it, how it is handed over.

Frozen values, all of them: they are read by people, pickled by queues and compared by tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from duly import codec
from duly.stores.drive import Row
from duly.stores.tables.instants import duration, instant, instant_or_none


class ReceiptState(StrEnum):
    """How far a receipt is."""

    PENDING = "pending"
    """Issued, and not completed: nobody has run it, somebody is running it, or all tries failed so far."""
    COMPLETED = "completed"
    """Its effects and this word were committed together."""
    EXHAUSTED = "exhausted"
    """Handed over as often as allowed, and nobody completed it. A delivery that comes late still runs."""


class Mark(NamedTuple):
    """The proof of a claim, to be shown with every write that counts on it."""

    id: str
    epoch: int
    mark: str


class Refusal(StrEnum):
    """Why a delivery was not claimed."""

    COMPLETED = "completed"
    RUNNING = "running"
    MISSING = "missing"


class Refused(NamedTuple):
    """A delivery that is not to run, or not now."""

    reason: Refusal
    wait: timedelta = timedelta(0)
    """When the claim in the way may be over, at the latest."""


class Issued(NamedTuple):
    """The answer to an issue: `created` is False when a receipt of that id was there before."""

    id: str
    created: bool


@dataclass(frozen=True, slots=True)
class HandOver:
    """A receipt on its way to whatever queue delivers it."""

    id: str
    name: str
    payload: str
    number: int
    """1 for the first hand-over, 2 for the next, and so on."""

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments it was issued with."""
        return codec.unpack(self.payload)[0]

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments it was issued with."""
        return codec.unpack(self.payload)[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptView:
    """A receipt as it stands."""

    id: str
    name: str
    payload: str | None
    """The arguments, packed; None when nobody issued it and the first delivery made it."""
    state: ReceiptState
    epoch: int
    """How often it was claimed."""
    mark: str | None
    """The claim in force, or the one that completed it."""
    created_at: datetime
    completed_at: datetime | None
    hand_overs: int
    handed_over_at: datetime | None
    next_at: datetime | None
    """When the sweep may hand it over (again)."""
    lease_left: timedelta
    """Zero when nobody has a valid claim."""

    @property
    def is_claimed(self) -> bool:
        """Whether somebody is running it now, or could be."""
        return self.state is not ReceiptState.COMPLETED and self.lease_left > timedelta(0)

    @classmethod
    def from_row(cls, row: Row) -> ReceiptView:
        """As `look.sql` and `find.sql` select it."""
        id_, name, payload, state, epoch, mark, created, completed, hand_overs, handed, next_at, left = row
        return cls(
            id=id_,
            name=name,
            payload=payload,
            state=ReceiptState(state),
            epoch=epoch,
            mark=mark,
            created_at=instant(created),
            completed_at=instant_or_none(completed),
            hand_overs=hand_overs,
            handed_over_at=instant_or_none(handed),
            next_at=instant_or_none(next_at),
            lease_left=timedelta(0) if state == ReceiptState.COMPLETED else duration(left),
        )


class Due(NamedTuple):
    """A receipt that the sweep found to be due."""

    id: str
    next_at: int
    hand_overs: int
    name: str
    payload: str
    epoch: int
    lease_left: int


class Swept(NamedTuple):
    """What one sweep did."""

    handed_over: int = 0
    failed: int = 0
    """Hand-overs that raised; they are tried again later and not counted."""
    exhausted: int = 0
    pruned: int = 0
