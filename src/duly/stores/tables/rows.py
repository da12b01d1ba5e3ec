"""A job in hand, whatever tables it was gathered from, and the moves by which a store puts it back.

The rules beside this file are written against these two; each SQL store has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from duly.fingerprints import fingerprint_or_none
from duly.job import Delivery, HistoryLine, Job, State, Wish
from duly.stores.drive import Steps
from duly.stores.tables.instants import instant, instant_or_none


class Row(Protocol):
    """Times as stored, texts as given."""

    generation: int
    id: str
    entered: int
    state: State
    is_parked: bool
    ready_at: int
    due: int
    created_at: int
    epoch: int
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
    delivery: Delivery
    perpetual: bool
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

    @property
    def task(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def serial_name(self) -> str | None:
        """What must not overlap, in words."""
        ...

    def forget_claim(self) -> None:
        """Whoever ends the job from here on, it is not the claim it was on loan to."""
        ...


R = TypeVar("R", bound=Row)
R_contra = TypeVar("R_contra", bound=Row, contravariant=True)


class World(Protocol[R_contra]):
    """The store at one moment, and what can be done to a job in it."""

    @property
    def now(self) -> int: ...
    @property
    def moment(self) -> Any: ...

    def note(
        self, row: R_contra, event: str, note: str = "", *, started_at: int | None = None
    ) -> Steps[None]: ...
    def tally(self, name: str, amount: int = 1) -> Steps[None]: ...
    def tell(self, row: R_contra) -> Steps[None]:
        """Leave word for the run: a wish, a successor."""
        ...

    def rearrange(self, row: R_contra) -> Steps[None]:
        """A waiting job changed."""
        ...

    def finish(self, row: R_contra, event: str, reason: str) -> Steps[None]: ...
    def wait_again(self, row: R_contra, event: str, ready_at: int) -> Steps[None]: ...
    def take_back(self, row: R_contra) -> Steps[None]:
        """From a worker that is gone: to the ready set, still ahead of what is parked behind it."""
        ...

    def reopen(self, row: R_contra) -> Steps[None]:
        """An ended job is about to change."""
        ...

    def revive(self, row: R_contra) -> Steps[None]:
        """It has changed, and waits again under a new generation."""
        ...

    def remove(self, row: R_contra) -> Steps[None]: ...
    def promote(self, serial: str | None) -> Steps[None]: ...
    def unmark(self, serial: str | None) -> Steps[None]: ...
    def trim(self, row: R_contra) -> Steps[None]:
        """A job that starts another cycle keeps its newest lines."""
        ...


def expire_after(row: Row, moment: int) -> None:
    """Count the time in which somebody must take it from here: each cycle has one of its own."""
    row.expires_at = None if row.expires_after is None else moment + row.expires_after


def blame(row: Row, error: str | None, now: int, name: str | None = None) -> None:
    """The error of a job changes together with its name and its time."""
    row.error, row.fingerprint = error, name or fingerprint_or_none(error)
    row.failed_at = None if error is None else now


def job_of(row: Row, lease_end: datetime, history: Sequence[HistoryLine] = ()) -> Job:
    """A snapshot for people. The lease is that of its worker."""
    return Job(
        id=row.id,
        task=row.task,
        queue=row.queue,
        priority=row.priority,
        key=row.key,
        serial=row.serial_name,
        generation=row.generation,
        state=row.state,
        ready_at=_ready_at(row, lease_end),
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
        fingerprint=row.fingerprint,
        failed_at=instant_or_none(row.failed_at),
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


def _ready_at(row: Row, lease_end: datetime) -> datetime | None:
    if row.state is State.WAITING:
        return instant(row.ready_at)
    return lease_end if row.state is State.RUNNING else None
