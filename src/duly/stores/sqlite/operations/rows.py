"""A job as it is stored, for the decisions that look at one job at a time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from duly.ids import new_nonce
from duly.job import Delivery, Overlap, State, Wish


@dataclass(slots=True)
class Row:
    """The columns of duly_job in the order of `row.sql`, times as stored."""

    generation: int
    id: str
    entered: int
    task: str
    queue: str
    rank: int
    state: State
    is_parked: bool
    ready_at: int
    due: int
    created_at: int
    epoch: int
    nonce: str
    worker: str
    attempt: int
    crashes: int
    deferrals: int
    cycle: int
    is_suspect: bool
    has_begun: bool
    began_isolated: bool
    key: str | None
    serial: str | None
    per_key: int
    overlap: Overlap
    delivery: Delivery
    perpetual: bool
    keep_done: int
    keep_failed: int
    expires_at: int | None
    expires_after: int | None
    tick: int | None
    first_failure: int | None
    superseded_by: str | None
    wish: Wish | None
    finished_at: int | None
    forget_at: int | None
    result_until: int | None
    reason: str
    context: str
    arguments: str
    progress: str | None
    result: str | None
    error: str | None
    fingerprint: str | None
    failed_at: int | None
    event: str | None
    """The last line of its history, where the row tells that itself."""
    started_at: int | None

    def __post_init__(self) -> None:
        self.state = State(self.state)
        self.overlap = Overlap(self.overlap)
        self.delivery = Delivery(self.delivery)
        self.wish = None if self.wish is None else Wish(self.wish)
        self.is_parked, self.is_suspect = bool(self.is_parked), bool(self.is_suspect)
        self.has_begun, self.began_isolated = bool(self.has_begun), bool(self.began_isolated)
        self.perpetual = bool(self.perpetual)

    @property
    def priority(self) -> int:
        """The rank, as people count."""
        return -self.rank

    @property
    def serial_name(self) -> str | None:
        """What must not overlap, in words."""
        return self.serial

    def forget_claim(self) -> None:
        """Whoever ends the job from here on, it is not the claim it was on loan to."""
        self.nonce = new_nonce()

    def parameters(self) -> dict[str, Any]:
        """What `save` writes. The folded error lets `find` ignore case beyond ASCII, which SQLite cannot."""
        values = {name: getattr(self, name) for name in FIELDS}
        return values | {"error_folded": None if self.error is None else self.error.lower()}


FIELDS: Final = tuple(field.name for field in fields(Row))
