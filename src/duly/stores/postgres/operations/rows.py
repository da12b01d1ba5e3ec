"""A job gathered from its tables, for the decisions that look at one job at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from duly.job import Delivery, HistoryLine, Overlap, State, Wish, serial_of
from duly.stores.drive import Row as Values
from duly.stores.postgres.operations.arrays import restored, restored_or_none, stored, stored_or_none
from duly.stores.postgres.operations.lanes import Book, Track
from duly.stores.postgres.operations.moment import Moment
from duly.stores.tables.instants import instant, instant_or_none


@dataclass(slots=True)
class Row:
    """The columns in the order of `load` in row.sql; times as stored, texts as given."""

    generation: int
    id: str
    entered: int
    lane: int
    ready_at: int
    due: int
    created_at: int
    expires_at: int | None
    expires_after: int | None
    tick: int | None
    first_failure: int | None
    keep_done: int
    keep_failed: int
    serial: str | None
    epoch: int
    attempt: int
    crashes: int
    deferrals: int
    cycle: int
    per_key: int
    overlap: Overlap
    delivery: Delivery
    perpetual: bool
    is_suspect: bool
    key: str | None
    chain: str | None
    context: str
    arguments: str
    error: str | None
    fingerprint: str | None
    failed_at: int | None
    state: State
    is_parked: bool
    seed: int | None
    worker: str
    worker_number: int | None
    lease_until: int | None
    worker_has_left: bool
    host: str | None
    has_begun: bool
    began_isolated: bool
    progress: str | None
    superseded_by: str | None
    wish: Wish | None
    finished_at: int | None
    forget_at: int | None
    result_until: int | None
    reason: str
    result: str | None
    event: str | None
    started_at: int | None
    track: Track = field(init=False)
    loaded: dict[str, Any] = field(init=False)

    @classmethod
    def gather(cls, values: Values, book: Book) -> Row:
        row = cls(*values)
        row.track = book.track(row.lane)
        row.overlap, row.delivery, row.state = Overlap(row.overlap), Delivery(row.delivery), State(row.state)
        row.wish = None if row.wish is None else Wish(row.wish)
        row.has_begun, row.began_isolated = bool(row.has_begun), bool(row.began_isolated)
        row.key, row.chain = restored_or_none(row.key), restored_or_none(row.chain)
        row.context, row.arguments, row.reason = (
            restored(row.context),
            restored(row.arguments),
            restored(row.reason),
        )
        row.error, row.result = restored_or_none(row.error), restored_or_none(row.result)
        row.progress = restored_or_none(row.progress)
        row.loaded = row.wide()
        return row

    def place(self) -> dict[str, int]:
        """What finds its row in `ready`, and what that row says."""
        return {
            "lane": self.lane,
            "has_serial": self.serial is not None,
            "ready_at": self.ready_at,
            "generation": self.generation,
        }

    def wide(self) -> dict[str, Any]:
        """What `save` writes."""
        return {
            "generation": self.generation,
            "lane": self.lane,
            "ready_at": self.ready_at,
            "due": self.due,
            "expires_at": self.expires_at,
            "expires_after": self.expires_after,
            "first_failure": self.first_failure,
            "epoch": self.epoch,
            "attempt": self.attempt,
            "crashes": self.crashes,
            "deferrals": self.deferrals,
            "cycle": self.cycle,
            "is_suspect": self.is_suspect,
            "context": stored(self.context),
            "arguments": stored(self.arguments),
            "error": stored_or_none(self.error),
            "fingerprint": self.fingerprint,
            "failed_at": self.failed_at,
        }

    def end(self) -> dict[str, Any]:
        """What `enter_ended` writes."""
        return {
            "generation": self.generation,
            "finished_at": self.finished_at,
            "forget_at": self.forget_at,
            "seed": self.seed,
            "result_until": self.result_until,
            "lane": self.lane,
            "epoch": self.epoch,
            "worker_number": self.worker_number,
            "state": self.state,
            "reason": stored(self.reason),
            "result": stored_or_none(self.result),
            "error": stored_or_none(self.error),
            "fingerprint": self.fingerprint,
            "failed_at": self.failed_at,
            "superseded_by": self.superseded_by,
            "wish": self.wish,
        }

    @property
    def task(self) -> str:
        """Of its lane."""
        return self.track.task

    @property
    def queue(self) -> str:
        """Of its lane."""
        return self.track.queue

    @property
    def priority(self) -> int:
        """Of its lane."""
        return self.track.priority

    def forget_claim(self) -> None:
        """Whoever ends the job from here on, it is not the claim it was on loan to."""
        self.seed = None

    @property
    def line(self) -> HistoryLine | None:
        """The last line of its history, where the end itself stands for it."""
        if self.event is None or self.finished_at is None:
            return None
        return HistoryLine(
            at=instant(self.finished_at),
            event=self.event,
            epoch=self.epoch,
            generation=self.generation,
            attempt=self.attempt,
            worker=self.worker,
            started_at=instant_or_none(self.started_at),
            note=self.reason,
        )

    @property
    def serial_name(self) -> str | None:
        """What must not overlap, in words."""
        return self.chain if self.chain is not None else serial_of(self.track.task, self.key)

    def lease_end(self, moment: Moment) -> datetime:
        """The end of its worker's lease."""
        return moment.lease_end(None if self.worker_has_left else self.lease_until)


class Peer(NamedTuple):
    """What matters of a live job to others of its serial."""

    generation: int
    id: str
    key: str | None
    is_running: bool
    is_parked: bool
    per_key: int
    overlap: str
    lane: int
    ready_at: int

    def waits_for(self, key: str | None) -> bool:
        """Whether it is another request for that key."""
        return not self.is_running and self.key == key

    def place(self) -> dict[str, int]:
        """What its row in `ready` says."""
        return {
            "lane": self.lane,
            "has_serial": True,
            "ready_at": self.ready_at,
            "generation": self.generation,
        }
