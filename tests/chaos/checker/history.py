"""The history of a chaos run as the checks see it: typed records, each with the time in which it happened.

An operation without an answer is `unknown`: it may have happened or not, at any time since it was called.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

NEVER = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a run was told to be like."""

    store: str = "sqlite"
    seed: int = 0
    seconds: float = 10.0
    lease: float = 2.0
    poll: float = 0.1
    grace: float = 2.0
    workers: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTerms:
    """What a task declares."""

    delivery: str = "at_least_once"
    overlap: str = "queue_one"
    attempts: int | None = None
    concurrency: int | None = None
    rate: tuple[int, float] | None = None
    hard_limit: float | None = None
    unique_for: float | None = None
    trailing: bool = False
    perpetual: bool = False
    automatic: bool = False
    stoppable: bool = False
    """Its body can be stopped from outside: it runs on the loop or in a child process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request or an order, as its caller saw it."""

    op: str
    kind: str = "enqueue"
    task: str = ""
    key: str | None = None
    id: str | None = None
    called: float = 0.0
    answered: float = NEVER
    is_acknowledged: bool = True
    generation: int = 0
    decision: str = "created"
    replaces: bool = False
    delay: float = 0.0
    digest: str = ""
    took_effect: bool = True
    """Of an order: whether it was told that something changed."""
    in_transaction: bool = False

    @property
    def creates(self) -> bool:
        """A job of its own came of it."""
        return self.is_acknowledged and self.decision in ("created", "queued", "replaced")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of a caller's own transaction."""

    op: str
    commits: bool
    called: float
    is_acknowledged: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Loan:
    """A job lent to a worker, as the worker was told."""

    id: str
    epoch: int
    nonce: str = ""
    worker: str = "w0-1"
    task: str = "quick"
    key: str | None = None
    generation: int = 1
    called: float = 0.0
    answered: float = 0.0
    now: float | None = None
    """The store's clock."""
    due: float = 0.0
    attempt: int = 0
    crashes: int = 0
    deferrals: int = 0
    cycle: int = 0
    tick: float | None = None
    queue: str = "default"

    @property
    def mark(self) -> Mark:
        return Mark(self.id, self.epoch)


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """One loan among all loans of a job."""

    id: str
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """A verdict, and the store's answer to it."""

    id: str
    epoch: int
    worker: str = "w0-1"
    verdict: str = "done"
    answer: str = "settled"
    """settled, lost, superseded, busy; unknown when none came."""
    called: float = 0.0
    answered: float = NEVER
    after: float | None = 0.0
    is_counted: bool = False
    """Of a crash: a death in isolation."""

    @property
    def mark(self) -> Mark:
        return Mark(self.id, self.epoch)

    @property
    def is_taken(self) -> bool:
        return self.answer == "settled"

    @property
    def may_be_taken(self) -> bool:
        return self.answer in ("settled", "superseded", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """A beat: which loans it asked for, and which of them were gone."""

    worker: str
    called: float
    answered: float
    phase: str = "ok"
    fences: frozenset[Mark] = frozenset()
    lost: frozenset[Mark] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class HandBack:
    """A worker gave up loans at once: it disowned what it never received, or said good-bye."""

    worker: str
    called: float
    spares: frozenset[Mark] = frozenset()


@dataclass(slots=True, kw_only=True)
class Body:
    """One run of a body, by its own account."""

    id: str
    epoch: int
    worker: str = "w0-1"
    pid: int = 0
    task: str = "quick"
    key: str | None = None
    generation: int = 1
    op: str = ""
    digest: str = ""
    attempt: int = 1
    tick: float | None = None
    token: str = ""
    started: float = 0.0
    last_sign: float = 0.0
    ended: float | None = None
    outcome: str | None = None

    @property
    def mark(self) -> Mark:
        return Mark(self.id, self.epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something the nemesis did."""

    kind: str
    begun: float
    ended: float
    target: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A process: when it was started, and when and how it was seen dead."""

    name: str
    pid: int = 0
    born: float = 0.0
    died: float = NEVER
    code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A job in a dump."""

    id: str
    task: str = "quick"
    key: str | None = None
    state: str = "done"
    generation: int = 1
    epoch: int = 1
    attempt: int = 0
    crashes: int = 0
    cycle: int = 0
    reason: str = ""
    tick: float | None = None
    due: float = 0.0
    queue: str = "default"
    finished_at: float | None = None

    @property
    def is_live(self) -> bool:
        return self.state in ("waiting", "running")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grip:
    """A lock held by a body: from when it was asked for until it was about to be let go."""

    name: str
    token: int
    asked: float
    held: float
    letting_go: float | None = None
    ttl: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A process seen alive after the worker it belonged to."""

    worker: str
    pid: int
    seen: float
    since: float
    state: str = "S"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What a worker had open at rest."""

    worker: str
    descriptors: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A row that an exactly-once body wrote in its transaction, as found at the end."""

    token: str
    op: str
    epoch: int = 1


@dataclass(slots=True, kw_only=True)
class History:
    """Everything a check may look at."""

    terms: Terms = field(default_factory=Terms)
    tasks: dict[str, TaskTerms] = field(default_factory=dict[str, TaskTerms])
    asked: list[Asked] = field(default_factory=list[Asked])
    endings: list[Ending] = field(default_factory=list[Ending])
    loans: list[Loan] = field(default_factory=list[Loan])
    settles: list[Settle] = field(default_factory=list[Settle])
    renewals: list[Renewal] = field(default_factory=list[Renewal])
    hand_backs: list[HandBack] = field(default_factory=list[HandBack])
    bodies: list[Body] = field(default_factory=list[Body])
    faults: list[Fault] = field(default_factory=list[Fault])
    lives: list[Life] = field(default_factory=list[Life])
    first: list[Row] = field(default_factory=list[Row])
    last: list[Row] = field(default_factory=list[Row])
    orders: frozenset[str] | None = None
    """Ops whose own transaction is known to have committed."""
    grips: list[Grip] = field(default_factory=list[Grip])
    orphans: list[Orphan] = field(default_factory=list[Orphan])
    vitals: list[Vitals] = field(default_factory=list[Vitals])
    effects: list[Effect] | None = None
    steps: list[float] = field(default_factory=list[float])
    """When the wall clock of the store was stepped; empty where the server's clock counts."""
    lags: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """(when, how much later than asked a thread woke up)"""
    contacts: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """(when, which worker) got an answer from the store."""
    looks: list[float] = field(default_factory=list[float])
    """When a claim was called that had room for everything and found nothing."""
    judged: Counter[str] = field(default_factory=Counter[str])
    """How often a check had something to judge: one that never had proves nothing."""
    is_complete: bool = True
    """It has a last dump: what is missing from it is missing."""
    quiet_at: float = NEVER
    drained_at: float = NEVER
    drained_wall: float = 0.0

    def task(self, name: str) -> TaskTerms:
        return self.tasks.get(name, TaskTerms())

    def slack(self, since: float, until: float) -> float:
        """How much later than due things may be seen between two moments, on this machine."""
        late = [seconds for at, seconds in self.lags if since - 1 <= at <= until + 1 + seconds]
        return 0.5 + sum(sorted(late)[-10:])

    def stepped_between(self, since: float, until: float) -> bool:
        return any(since - 0.1 <= at <= until + 0.1 for at in self.steps)

    def life(self, name: str) -> Life | None:
        return next((life for life in self.lives if life.name == name), None)

    def frozen(self, worker: str) -> list[Fault]:
        return [fault for fault in self.faults if fault.kind.startswith("freeze") and fault.target == worker]


def by_id(records: Iterable[Any]) -> dict[str, list[Any]]:
    """Records of each job, in the order they were called or started."""
    found: dict[str, list[Any]] = defaultdict(list)
    for record in records:
        found[record.id].append(record)
    return found
