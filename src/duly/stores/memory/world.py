"""The state behind the memory store: plain dictionaries, one lock outside, obviously right.

This is the specification the other stores are compared with, so it prefers being readable over
being fast; it is quick enough for a test suite's few thousand jobs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from duly.clock import Clock
from duly.fingerprints import fingerprint_or_none
from duly.ids import new_nonce
from duly.job import LIVE, Delivery, HistoryLine, Job, Keep, Overlap, Request, State, Wish
from duly.lifecycle import move
from duly.stores.contract import Grip, Scope, Switch, WorkerCard
from duly.stores.reports import Entry


@dataclass(slots=True, kw_only=True)
class Row:
    """A job as it is stored; only the functions of this package change it."""

    id: str
    task: str
    queue: str
    priority: int
    key: str | None
    serial: str | None
    generation: int
    arguments: str
    ready_at: datetime
    due: datetime
    created_at: datetime
    expires_at: datetime | None
    expires_after: timedelta | None
    overlap: Overlap
    per_key: int
    delivery: Delivery
    keep: Keep
    perpetual: bool
    tick: datetime | None
    context: str
    state: State = State.WAITING
    is_parked: bool = False
    epoch: int = 0
    nonce: str = ""
    worker: str = ""
    attempt: int = 0
    crashes: int = 0
    deferrals: int = 0
    cycle: int = 0
    first_failure: datetime | None = None
    is_suspect: bool = False
    has_begun: bool = False
    began_isolated: bool = False
    superseded_by: str | None = None
    wish: Wish | None = None
    finished_at: datetime | None = None
    forget_at: datetime | None = None
    reason: str = ""
    error: str | None = None
    fingerprint: str | None = None
    failed_at: datetime | None = None
    result: str | None = None
    result_until: datetime | None = None
    progress: str | None = None
    history: list[HistoryLine] = field(default_factory=list[HistoryLine])


@dataclass(slots=True)
class Presence:
    """A worker and the end of its lease, in boot time so that a stepped wall clock ends no lease."""

    card: WorkerCard
    lease_until: float
    seen_at: datetime


@dataclass(slots=True)
class HeldLock:
    """A lock and its holder."""

    owner: str
    token: int
    until: float


@dataclass(slots=True)
class Window:
    """A duplicate guard in force."""

    until: datetime
    id: str


@dataclass(slots=True)
class Delivered:
    """What a relay brought last for a serial: its number, and until when that is remembered."""

    number: int
    until: datetime


@dataclass(slots=True)
class Kept:
    """An entry of a diary, and until when it is kept."""

    entry: Entry
    until: datetime


def expiry(asked_at: datetime, after: timedelta | None) -> datetime | None:
    """When nobody wants a job any more; each cycle of a perpetual has a time of its own."""
    return None if after is None else asked_at + after


class World:
    """Everything one memory store knows."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.rows: dict[str, Row] = {}
        self.workers: dict[str, Presence] = {}
        self.windows: dict[str, Window] = {}
        self.markers: dict[str, datetime] = {}
        self.switches: dict[tuple[Scope, str], Switch] = {}
        self.locks: dict[str, HeldLock] = {}
        self.records: dict[tuple[str, str], str] = {}
        self.diaries: dict[str, dict[int, Kept]] = defaultdict(dict)
        self.delivered: dict[str, datetime] = {}
        self.numbers: dict[tuple[str, str], Delivered] = {}
        self.starts: dict[str, list[datetime]] = defaultdict(list)
        self.tallies: Counter[str] = Counter()
        self.last_number = 0

    def now(self) -> datetime:
        return self.clock.now()

    def draw(self) -> int:
        """The store-wide rising counter: generations and lock tokens."""
        self.last_number += 1
        return self.last_number

    def live(self, serial: str | None, state: State) -> list[Row]:
        """Jobs of one serial in one live state, oldest request first."""
        if serial is None:
            return []
        found = [row for row in self.rows.values() if row.serial == serial and row.state is state]
        return sorted(found, key=lambda row: row.generation)

    def has_lease(self, worker: str) -> bool:
        presence = self.workers.get(worker)
        return presence is not None and presence.lease_until > self.clock.boot()

    def lease_end(self, row: Row) -> datetime:
        """The end of a running job's lease on the wall clock, for people."""
        presence = self.workers.get(row.worker)
        left = presence.lease_until - self.clock.boot() if presence else 0.0
        return self.now() + timedelta(seconds=left)

    def create(self, request: Request, *, at: datetime, due: datetime, is_parked: bool) -> Row:
        row = Row(
            id=request.id,
            task=request.task,
            queue=request.queue,
            priority=request.priority,
            key=request.key,
            serial=request.lane_of_serial,
            generation=self.draw(),
            arguments=request.arguments,
            ready_at=due,
            due=due,
            created_at=at,
            expires_at=expiry(at, request.expires_after),
            expires_after=request.expires_after,
            overlap=request.overlap,
            per_key=request.per_key,
            delivery=request.delivery,
            keep=request.keep,
            perpetual=request.perpetual,
            tick=request.tick,
            context=request.context,
            is_parked=is_parked,
        )
        self.rows[row.id] = row
        return row

    def note(self, row: Row, event: str, note: str = "", *, started_at: datetime | None = None) -> None:
        row.history.append(
            HistoryLine(
                at=self.now(),
                event=event,
                epoch=row.epoch,
                generation=row.generation,
                attempt=row.attempt,
                worker=row.worker,
                started_at=started_at,
                note=note,
            )
        )

    def blame(self, row: Row, error: str | None, name: str | None = None) -> None:
        """The error of a job changes together with its name and its time."""
        row.error, row.fingerprint = error, name or fingerprint_or_none(error)
        row.failed_at = None if error is None else self.now()

    def finish(self, row: Row, event: str, reason: str) -> None:
        """A terminal move. Whoever waits parked behind this serial may now be promoted."""
        row.state = move(row.state, event)
        row.reason = reason
        row.finished_at = self.now()
        row.forget_at = row.finished_at + (row.keep.failed if row.state is State.FAILED else row.keep.done)
        row.is_parked = False
        if event in ("cancel", "stop"):
            self._mark(row)
        self.promote(row.serial)

    def _mark(self, row: Row) -> None:
        """A perpetual that was stopped stays stopped, unless it is deleted or a newer request stands."""
        has_newer = any(self.live(row.serial, state) for state in LIVE)
        if row.perpetual and row.serial is not None and row.wish is not Wish.DELETE and not has_newer:
            self.markers[row.serial] = self.now()

    def wait_again(self, row: Row, event: str, ready_at: datetime) -> None:
        row.state = move(row.state, event)
        row.ready_at = ready_at
        row.worker = ""
        row.nonce = new_nonce()  # whatever the old claim still writes is refused from here on
        row.has_begun = row.began_isolated = False
        row.progress = None
        self.promote(row.serial)

    def promote(self, serial: str | None) -> None:
        """Something of this serial ended or waits again: the oldest parked request may become ready."""
        parked = [row for row in self.live(serial, State.WAITING) if row.is_parked]
        if parked and not self._is_in_the_way(parked[0]):
            parked[0].is_parked = False

    def _is_in_the_way(self, first: Row) -> bool:
        """Runs up to the limit; for a chain also the one in front that waits to be tried again."""
        if len(self.live(first.serial, State.RUNNING)) >= max(first.per_key, 1):
            return True
        ready = [row for row in self.live(first.serial, State.WAITING) if not row.is_parked]
        return first.overlap is Overlap.QUEUE_ALL and first.per_key == 1 and bool(ready)

    def job(self, row: Row, *, with_history: bool = False) -> Job:
        return Job(
            id=row.id,
            task=row.task,
            queue=row.queue,
            priority=row.priority,
            key=row.key,
            serial=row.serial,
            generation=row.generation,
            state=row.state,
            ready_at=self._ready_at(row),
            due=row.due,
            epoch=row.epoch,
            attempt=row.attempt,
            crashes=row.crashes,
            deferrals=row.deferrals,
            cycle=row.cycle,
            arguments=row.arguments,
            created_at=row.created_at,
            finished_at=row.finished_at,
            worker=row.worker,
            reason=row.reason,
            error=row.error,
            fingerprint=row.fingerprint,
            failed_at=row.failed_at,
            result=row.result,
            is_parked=row.is_parked,
            is_suspect=row.is_suspect,
            superseded_by=row.superseded_by,
            wish=row.wish,
            expires_at=row.expires_at,
            tick=row.tick,
            delivery=row.delivery,
            progress=row.progress,
            context=row.context,
            history=tuple(row.history) if with_history else (),
        )

    def _ready_at(self, row: Row) -> datetime | None:
        if row.state is State.WAITING:
            return row.ready_at
        return self.lease_end(row) if row.state is State.RUNNING else None

    def jot(self, kind: str, text: str, keep: timedelta, number: int | None) -> int:
        diary, now = self.diaries[kind], self.now()
        if number in diary:
            diary[number].entry = diary[number].entry._replace(text=text)
            return number
        written = self.draw()
        diary[written] = Kept(Entry(written, now, text), now + keep)
        return written

    def grip(self, name: str, owner: str, ttl: timedelta) -> Grip | None:
        held = self.locks.get(name)
        if held is not None and held.until > self.clock.boot():
            return None
        token = self.draw()
        self.locks[name] = HeldLock(owner, token, self.clock.boot() + ttl.total_seconds())
        return Grip(name, token)

    def running(self, tasks: Iterable[str]) -> Counter[str]:
        """How many jobs of each task are on loan: limits are derived from this, so they cannot drift."""
        wanted = set(tasks)
        running = (row.task for row in self.rows.values() if row.state is State.RUNNING)
        return Counter(task for task in running if task in wanted)
