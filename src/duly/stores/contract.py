"""What a store promises: nine batch operations on jobs, and the small contracts beside them.

A store method returns an `Operation`: a description that performs no I/O. `store.run(operation)`
or `await store.arun(operation)` performs it, in one transaction, all or nothing. The in-memory
store is the executable specification; tests/contract runs on every store.

Time is the store's: no operation takes `now` from a caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from duly.job import ENGINE_QUEUES, Claim, Decision, Fence, Job, Request, State
from duly.lifecycle import Conclusion, Settled, Verdict
from duly.stores.drive import Operation
from duly.stores.reports import Entry, FailureGroup, Found, Search

T = TypeVar("T")


# --- put ----------------------------------------------------------------------------------------


class Placed(NamedTuple):
    """What became of one request: the job its handle speaks of, and why."""

    id: str
    generation: int
    decision: Decision


# --- deliver ------------------------------------------------------------------------------------

REMEMBERED: Final = timedelta(days=1)
"""How long a store remembers what relays delivered: far longer than the lease of any of them."""


class Parcel(NamedTuple):
    """A request on its way from an outbox: its place in the outbox's order, and how long ago it was made."""

    request: Request
    number: int
    age: timedelta = timedelta(0)
    """Delays, windows and expiry count from the request's moment; no two machines' clocks are compared."""


# --- claim --------------------------------------------------------------------------------------


class Rate(NamedTuple):
    """At most `starts` in every window of length `per`, over all workers."""

    starts: int
    per: timedelta


@dataclass(frozen=True, slots=True)
class Lane:
    """A task this worker can run, with the limits its code declares."""

    task: str
    concurrency: int | None = None
    rate: Rate | None = None
    on_any_queue: bool = False
    """Taken whatever queues the worker was told to serve: schedules tick everywhere."""
    held_by: tuple[str, ...] = ()
    """Further tasks whose pause holds this lane: a schedule stands still with its task."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A worker's request for work."""

    worker: str
    lanes: Mapping[str, Lane]
    lease: timedelta
    limit: int
    """The most to lend: free slots plus the small buffer."""
    free: int
    """Slots that start at once. Lanes with a limit draw only on these: a claim must be a start there."""
    queues: frozenset[str] | None = None
    takes_over: bool = True
    """False just after an outage, so that workers who are alive can first renew."""


class Claimed(NamedTuple):
    """What was lent, and when it is worth asking again (None: only when the bell rings)."""

    claims: Sequence[Claim]
    """In order; perhaps not made before somebody looks at them."""
    next_at: datetime | None
    now: datetime | None = None
    """The store's clock, so that a worker never compares `next_at` with its own."""


# --- renew --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkerCard:
    """Who a worker is. The id is new at every start; the name is only a label."""

    id: str
    name: str
    host: str
    pid: int
    started_at: datetime
    queues: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    slots: int = 0
    version: str = ""


class Attendance(NamedTuple):
    """A worker that has not said good-bye: when it was last heard of, and whether its lease still holds."""

    card: WorkerCard
    seen_at: datetime
    has_lease: bool


class Order(StrEnum):
    """What a beat may tell a running claim."""

    CANCEL = "cancel"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Renewal:
    """What a beat learnt."""

    lost: frozenset[Fence] = frozenset()
    orders: Mapping[Fence, Order] = field(default_factory=dict[Fence, Order])
    is_at_home: bool = field(default=False, compare=False)
    """The store said with it that it serves this code and that nobody moves it; else it is asked apart."""


# --- settle -------------------------------------------------------------------------------------


class Settlement(NamedTuple):
    """One claim's end: its verdict, and what must happen with it or not at all."""

    fence: Fence
    verdict: Verdict
    started_at: datetime | None = None
    then: tuple[Request, ...] = ()
    """Follow-up requests. One for the run's own key never supersedes the run that makes it."""
    arguments: str | None = None
    """New arguments for the next cycle, with Again."""
    is_conditional: bool = False
    """In a transaction that commits only if the verdict stands: then a wish to cancel answers SUPERSEDED."""
    generation: int | None = None
    """The one its job had in this claim: a store may find it sooner by it. It proves nothing."""

    def answer(self, conclusion: Conclusion) -> Settled:
        """What the worker is told."""
        is_refused = self.is_conditional and conclusion.event == "cancel"
        return Settled.SUPERSEDED if is_refused else conclusion.answer


class Turned(NamedTuple):
    """Settle and claim in one transaction."""

    answers: list[Settled]
    claimed: Claimed


# --- amend, find, count -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which jobs: every given field must match. Empty selects all."""

    ids: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    states: tuple[State, ...] = ()
    queues: tuple[str, ...] = ()
    key: str | None = None
    error: str | None = None
    """A part of the error text, case-insensitive."""
    fingerprint: str | None = None
    """The name of the error."""

    @property
    def spares(self) -> tuple[str, ...]:
        """Queues an order with this selection leaves alone: the engine's, unless it names what it means."""
        return () if self.ids or self.tasks or self.queues else ENGINE_QUEUES


@dataclass(frozen=True, slots=True)
class Page:
    """Newest first by generation; `before` continues after the last row seen."""

    limit: int = 100
    before: int | None = None
    with_history: bool = False


@dataclass(frozen=True, slots=True)
class Cancel:
    """Waiting jobs are cancelled; running ones are asked to stop."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Finished and waiting jobs vanish; running ones stop first."""


@dataclass(frozen=True, slots=True)
class Revive:
    """An operator's retry of finished jobs: a new generation, fresh budgets."""


@dataclass(frozen=True, slots=True)
class Postpone:
    """Waiting jobs become ready at another time (None: now). A running one that goes on goes on at once."""

    at: datetime | None = None


Amendment = Cancel | Delete | Revive | Postpone


class Amended(NamedTuple):
    """One job's answer: whether the order took effect, and if not, why."""

    id: str
    took_effect: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Census:
    """Counts for people: jobs by (task, queue, state), and things that were refused or suppressed."""

    jobs: Mapping[tuple[str, str, State], int]
    oldest_due: Mapping[str, datetime]
    """The due time of the oldest ready job of each queue."""
    suppressed: int
    refused: int
    superseded: int
    has_finished: bool = True
    """Whether finished jobs were counted."""


# --- switches, locks, records -------------------------------------------------------------------


class Scope(StrEnum):
    """What a switch holds."""

    TASK = "task"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class Switch:
    """A lane that stands still: until somebody resumes it, or until a time."""

    scope: Scope
    name: str
    until: datetime | None
    reason: str = ""

    def ends_by(self, other: Switch) -> bool:
        """Whether the other holds for as long, so that nothing is lost by putting it in this one's place."""
        return other.until is None or (self.until is not None and self.until <= other.until)


class Grip(NamedTuple):
    """A held lock: the token rises with every acquisition and fences writes elsewhere."""

    name: str
    token: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Every condition of the claim for one job, each true or false: why it runs or not."""

    job: Job
    conditions: tuple[tuple[str, bool, str], ...]
    """(condition, holds, explanation)"""


class Doorbell(Protocol):
    """One listener's bell: a ring between two waits is remembered, so none falls into the gap."""

    def wait(self, timeout: timedelta) -> bool: ...
    def wake(self) -> None: ...
    def close(self) -> None: ...


class Store(Protocol):
    """The whole contract. Operations are values; `run` and `arun` perform them."""

    url: str

    # driving
    def run(self, operation: Operation[T]) -> T: ...
    async def arun(self, operation: Operation[T]) -> T: ...
    def run_on(self, connection: Any, operation: Operation[T]) -> T: ...
    async def arun_on(self, connection: Any, operation: Operation[T]) -> T: ...
    def open(self) -> None: ...
    def close(self) -> None: ...
    def check_schema(self) -> None: ...

    # jobs
    def put(self, requests: Sequence[Request]) -> Operation[list[Placed]]: ...
    def offer(self, requests: Sequence[Request]) -> Operation[list[Placed]]: ...
    def deliver(self, outbox: str, parcels: Sequence[Parcel]) -> Operation[list[Placed]]:
        """Put what a relay brings, each id once (known: kept), and per serial only in the outbox's order.

        One that a newer one of its serial has overtaken is counted as superseded and stays `pending`: nothing
        is decided. It is not remembered either, since its relay is late, and another may bring it in order.
        """
        ...

    def claim(self, ask: Ask) -> Operation[Claimed]: ...
    def begin(
        self, fences: Sequence[Fence], *, isolated: bool, once: bool = False
    ) -> Operation[frozenset[Fence]]:
        """With `once` the jobs are at_most_once from here on, whatever their requests said."""
        ...

    def renew(self, card: WorkerCard, fences: Sequence[Fence], lease: timedelta) -> Operation[Renewal]: ...
    def settle(self, worker: str, settlements: Sequence[Settlement]) -> Operation[list[Settled]]: ...
    def turn(self, settlements: Sequence[Settlement], ask: Ask) -> Operation[Turned]: ...
    def foresee(self, settlements: Sequence[Settlement]) -> None:
        """A hint: the next turn is likely to settle these very ones. What can be packed before, may be."""
        ...

    def disown(self, worker: str, held: Sequence[Fence]) -> Operation[int]: ...
    def amend(
        self, selection: Selection, amendment: Amendment, *, by: str = "", limit: int = 1000
    ) -> Operation[list[Amended]]: ...
    def prune(self, limit: int) -> Operation[int]: ...
    def find(self, selection: Selection, page: Page) -> Operation[list[Job]]: ...
    def count(self, selection: Selection) -> Operation[int]: ...
    def census(self, *, with_finished: bool = True, most: int | None = None) -> Operation[Census]:
        """Counts of everything, or of live jobs alone: what is finished can be a thousand times as much.

        Where more than `most` are finished and they would have to be counted one by one, they are left out.
        """
        ...

    def search(self, selection: Selection, search: Search) -> Operation[Found]: ...
    def failures(self, limit: int) -> Operation[list[FailureGroup]]: ...
    def explain(self, job_id: str) -> Operation[Standing | None]: ...
    def report(self, progress: Mapping[Fence, str]) -> Operation[None]: ...

    # workers
    def leave(self, worker: str) -> Operation[None]: ...
    def workers(self) -> Operation[list[Attendance]]: ...

    # switches
    def hold(self, switch: Switch) -> Operation[None]:
        """Of two holds of one lane the one that ends later stands, and a pause never ends.

        So a throttle shortens neither another nor an operator's pause; to shorten one, `free` it first.
        """
        ...

    def free(self, scope: Scope, name: str) -> Operation[bool]: ...
    def switches(self) -> Operation[list[Switch]]: ...

    # locks
    def grip(self, name: str, owner: str, ttl: timedelta) -> Operation[Grip | None]: ...
    def keep_grip(self, grip: Grip, ttl: timedelta) -> Operation[bool]: ...
    def let_go(self, grip: Grip) -> Operation[bool]: ...

    # records: small named texts (schedule definitions, overlays, where a sealed store moved to)
    def record(self, kind: str, name: str, text: str | None) -> Operation[None]: ...
    def records(self, kind: str) -> Operation[dict[str, str]]: ...

    # diaries: short texts one after the other, each kept for a while (orders of operators, pulses of workers)
    def jot(self, kind: str, text: str, *, keep: timedelta, number: int | None = None) -> Operation[int]:
        """Add an entry; answers its number. With a number that entry is rewritten, if it is still there."""
        ...

    def diary(
        self, kind: str, *, limit: int, before: int | None = None, since: datetime | None = None
    ) -> Operation[list[Entry]]:
        """Entries not older than `since`, newest first; `before` continues after the last one seen."""
        ...

    # the doorbell: may ring for nothing or miss; polling is the truth
    def ring(self) -> None: ...
    def doorbell(self) -> Doorbell: ...
