"""The vocabulary of one unit of work.

A *request* asks for work, a *job* is the durable row it becomes, a *claim* is a job on loan to a
worker, and its *fence* is what every write by that worker must show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple, cast


class State(StrEnum):
    """Where a job is in its life; `lifecycle.MOVES` says how it gets from one to the next."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


ENGINE_QUEUES: Final = ("duly.schedules",)
"""Where the engine keeps jobs of its own: an order must name them to reach them."""

LIVE = frozenset({State.WAITING, State.RUNNING})
FINISHED = frozenset(State) - LIVE


class Delivery(StrEnum):
    """The promise a task makes about its effects."""

    AT_LEAST_ONCE = "at_least_once"
    AT_MOST_ONCE = "at_most_once"
    EXACTLY_ONCE = "exactly_once"


class Overlap(StrEnum):
    """What a request does while an older run of the same key is running."""

    QUEUE_ONE = "queue_one"
    QUEUE_ALL = "queue_all"  # ticks of a schedule that must all run, one after the other
    SKIP = "skip"
    ALLOW = "allow"
    CANCEL_PREVIOUS = "cancel_previous"


class Clash(StrEnum):
    """How a request treats what already stands for its key."""

    ADD = "add"
    REPLACE = "replace"
    SEED = "seed"  # only if neither a live job nor a stop marker exists


class Decision(StrEnum):
    """What became of a request."""

    CREATED = "created"
    KEPT = "kept"
    QUEUED = "queued"
    SKIPPED = "skipped"
    REPLACED = "replaced"
    PENDING = "pending"


class Wish(StrEnum):
    """What an operator wants of a running job; the run learns of it at the next beat."""

    CANCEL = "cancel"
    DELETE = "delete"
    HURRY = "hurry"  # if it goes on, it goes on at once: an edited schedule must look at its clock again


@dataclass(frozen=True, slots=True)
class Keep:
    """How long finished jobs stay readable."""

    done: timedelta = timedelta(days=1)
    failed: timedelta = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Guard:
    """Within `window` after an accepted request further ones for the key are kept back."""

    window: timedelta
    trailing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A wish for work, ready to be stored: everything a store needs to know, nothing it must look up."""

    id: str
    task: str
    arguments: str
    queue: str = "default"
    priority: int = 0
    key: str | None = None
    serial: str | None = None
    """What must not overlap: by default task and key; for a tick, its schedule."""
    run_after: datetime | None = None
    """Absolute due time; None means now by the store's clock."""
    delay: timedelta | None = None
    """Relative due time, added to the store's clock: two machines' clocks are never compared."""
    expires_after: timedelta | None = None
    clash: Clash = Clash.ADD
    overlap: Overlap = Overlap.QUEUE_ONE
    per_key: int = 1
    """How many runs of one serial may be in progress; 0 is no limit."""
    guard: Guard | None = None
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    keep: Keep = Keep()
    perpetual: bool = False
    """Stopping or cancelling it leaves a marker, so that it is not seeded again."""
    tick: datetime | None = None
    context: str = "{}"
    """What the caller wants to travel along (log context, trace parent), as JSON text."""

    @property
    def lane_of_serial(self) -> str | None:
        """The serial in force: given, or the key within its task."""
        return self.serial if self.serial is not None else serial_of(self.task, self.key)


def serial_of(task: str, key: str | None) -> str | None:
    """Keys belong to their task: two tasks may speak of one `lease:42` without touching each other."""
    return None if key is None else f"{task}|{key}"


class Fence(NamedTuple):
    """What a worker shows with every write: the job, how often it was lent, and the secret of this loan."""

    id: str
    epoch: int
    nonce: str


_as_fence: Final[Callable[[Sequence[object]], Fence]] = partial(cast(Any, tuple).__new__, Fence)
"""Made for every claim: `_make` takes twice as long."""


class Claim(NamedTuple):
    """A job on loan. A tuple, since tens of thousands are made each second."""

    id: str
    epoch: int
    nonce: str
    task: str
    queue: str
    key: str | None
    generation: int
    arguments: str
    attempt: int
    """Failures of the body so far in this cycle."""
    crashes: int
    deferrals: int
    cycle: int
    """Counts Again and operator's retries; part of the idempotency key."""
    is_suspect: bool
    """A worker died holding it: it runs in isolation now."""
    due: datetime
    tick: datetime | None
    first_failure: datetime | None
    context: str

    @property
    def fence(self) -> Fence:
        """The proof to show with every write."""
        return _as_fence(self[:3])

    @property
    def idempotency_key(self) -> str:
        """Stable over attempts, crashes and deferrals of a cycle; new at each Again and operator's retry."""
        return f"{self.id}-{self.cycle}"


as_claim: Final[Callable[[Sequence[object]], Claim]] = partial(cast(Any, tuple).__new__, Claim)
"""Of all its fields, for those who make many: `_make` would count them each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One thing that happened to a job: a run and its end, a refused write, an operator's act."""

    at: datetime
    event: str
    epoch: int = 0
    generation: int = 0
    attempt: int = 0
    worker: str = ""
    started_at: datetime | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A durable row, as read back: a snapshot, not a handle."""

    id: str
    task: str
    queue: str
    priority: int
    key: str | None
    serial: str | None
    generation: int
    state: State
    ready_at: datetime | None
    """Due time while waiting, end of the lease while running, None when finished."""
    due: datetime
    """The due time first asked for: retries and deferrals do not move it."""
    epoch: int
    attempt: int
    crashes: int
    deferrals: int
    cycle: int
    arguments: str
    created_at: datetime
    finished_at: datetime | None = None
    worker: str = ""
    reason: str = ""
    """Why it is in this state: `superseded by ID`, `expired`, `interrupted, outcome unknown`."""
    error: str | None = None
    fingerprint: str | None = None
    """The name that its error has in common with others of the same cause; None without an error."""
    failed_at: datetime | None = None
    """When that error happened; None without one."""
    result: str | None = None
    is_parked: bool = False
    is_suspect: bool = False
    superseded_by: str | None = None
    wish: Wish | None = None
    expires_at: datetime | None = None
    tick: datetime | None = None
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    progress: str | None = None
    context: str = "{}"
    history: tuple[HistoryLine, ...] = field(default=())
