"""A job as it is stored, for the decisions that look at one job at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from duly.job import Delivery, HistoryLine, Job, Overlap, State, Wish
from duly.stores.sqlite.operations.moment import Moment
from duly.stores.tables.instants import instant, instant_or_none


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

    def __post_init__(self) -> None:
        self.state = State(self.state)
        self.overlap = Overlap(self.overlap)
        self.delivery = Delivery(self.delivery)
        self.wish = None if self.wish is None else Wish(self.wish)
        self.is_parked, self.is_suspect = bool(self.is_parked), bool(self.is_suspect)
        self.has_begun, self.began_isolated = bool(self.has_begun), bool(self.began_isolated)
        self.perpetual = bool(self.perpetual)

    def expire_after(self, moment: int) -> None:
        """Count the time in which somebody must take it from here: each cycle has one of its own."""
        self.expires_at = None if self.expires_after is None else moment + self.expires_after

    def parameters(self) -> dict[str, Any]:
        """What `save` writes. The folded error lets `find` ignore case beyond ASCII, which SQLite cannot."""
        values = {name: getattr(self, name) for name in FIELDS}
        return values | {"error_folded": None if self.error is None else self.error.lower()}


FIELDS: Final = tuple(field.name for field in fields(Row))


def job_of(row: Row, moment: Moment, lease_until: int | None, history: Sequence[HistoryLine] = ()) -> Job:
    """A snapshot for people. `lease_until` is the end of its worker's lease, None where none is known."""
    return Job(
        id=row.id,
        task=row.task,
        queue=row.queue,
        priority=-row.rank,
        key=row.key,
        serial=row.serial,
        generation=row.generation,
        state=row.state,
        ready_at=_ready_at(row, moment, lease_until),
        due=instant(row.due),
        epoch=row.epoch,
        attempt=row.attempt,
        crashes=row.crashes,
        deferrals=row.deferrals,
        cycle=row.cycle,
        arguments=row.arguments,
        created_at=instant(row.created_at),
        finished_at=instant_or_none(row.finished_at),
        worker=row.worker,
        reason=row.reason,
        error=row.error,
        result=row.result,
        is_parked=row.is_parked,
        is_suspect=row.is_suspect,
        superseded_by=row.superseded_by,
        wish=row.wish,
        expires_at=instant_or_none(row.expires_at),
        tick=instant_or_none(row.tick),
        delivery=row.delivery,
        progress=row.progress,
        context=row.context,
        history=tuple(history),
    )


def _ready_at(row: Row, moment: Moment, lease_until: int | None) -> datetime | None:
    if row.state is State.WAITING:
        return instant(row.ready_at)
    return lease_end(moment, lease_until) if row.state is State.RUNNING else None


def lease_end(moment: Moment, lease_until: int | None) -> datetime:
    """The end of a lease on the wall clock, for people; a lease of another boot has ended by now."""
    left = 0 if lease_until is None else lease_until - moment.boot
    return instant(moment.now + left)
