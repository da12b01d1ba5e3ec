"""Moving house: what a store offers so that everything in it can be carried to another.

A store that is being left or filled has a *notice* at its door, one row that every write looks at in its
own transaction. So a request is either stored before the notice goes up, and carried, or refused: there is
no moment between the two. The source alone decides when the move is done; the target lends nothing before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, runtime_checkable

from duly.errors import SchemaMismatch, StoreMoved, StoreUnavailable
from duly.job import Job, Keep, Overlap, State
from duly.stores.contract import Ask, Store, Switch
from duly.stores.drive import Operation

RECORDS: Final = "house"
"""The kind of record that tells of a move that has ended. It is not carried."""
CARRIED: Final = 10_000
"""Entries of each diary that go along."""
ARRIVED: Final = "arrived"
"""The record with the move that filled this store last."""


class Stage(StrEnum):
    """How far a store is in being left or filled; without a notice it is a home like any other."""

    SEALED = "sealed"
    """Producers are sent away, nothing is lent; what runs may end."""
    CLOSED = "closed"
    """Nothing runs any more and nothing changes any more: it can be carried."""
    GONE = "gone"
    """Everything is at the target, for good."""
    ARRIVING = "arriving"
    """Being filled: nothing is lent and nobody else may write before all is there."""


class Notice(NamedTuple):
    """What hangs at the door."""

    stage: Stage
    move: str
    """Which move: one that was undone and begun again is another."""
    other: str
    """Where everything goes, or comes from: a URL without its password."""
    cursor: int = 0
    """At the target, up to which generation jobs have arrived."""


class Obstacles(NamedTuple):
    """What keeps a sealed store from being closed."""

    running: int = 0
    pending: int = 0
    """Requests committed with a caller's transaction and not yet placed."""
    unreadable: int = 0
    """Such requests that only newer code can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Belonging:
    """A job with everything a store knows about it, also what nobody is shown."""

    job: Job
    entered: int
    """The generation it was created with; an operator's retry gives it another, but not another age."""
    overlap: Overlap
    per_key: int
    keep: Keep
    perpetual: bool
    expires_after: timedelta | None
    first_failure: datetime | None
    result_until: datetime | None

    @property
    def forget_at(self) -> datetime | None:
        """When it may be pruned."""
        ended, keep = self.job.finished_at, self.keep
        if ended is None:
            return None
        return ended + (keep.failed if self.job.state is State.FAILED else keep.done)


class Window(NamedTuple):
    """A duplicate guard in force."""

    serial: str
    until: datetime
    id: str


class Marker(NamedTuple):
    """A perpetual that was stopped and stays so."""

    serial: str
    at: datetime


class HeldLock(NamedTuple):
    """A lock somebody holds, and for how long yet."""

    name: str
    owner: str
    token: int
    left: timedelta


class Note(NamedTuple):
    """A record."""

    kind: str
    name: str
    text: str


class Leaf(NamedTuple):
    """An entry of a diary, and how long it is kept."""

    number: int
    kind: str
    at: datetime
    until: datetime
    text: str


class Start(NamedTuple):
    """A start that counts for a rate limit."""

    task: str
    at: datetime


class Delivered(NamedTuple):
    """A request that a relay brought, remembered so that it is not taken twice."""

    id: str
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Furniture:
    """Everything in a store that is not a job."""

    last_number: int
    """The rising counter: the target goes on from here, so no generation and no token comes twice."""
    tallies: Mapping[str, int] = field(default_factory=dict[str, int])
    windows: Sequence[Window] = ()
    markers: Sequence[Marker] = ()
    switches: Sequence[Switch] = ()
    locks: Sequence[HeldLock] = ()
    notes: Sequence[Note] = ()
    starts: Sequence[Start] = ()
    delivered: Sequence[Delivered] = ()
    pages: Sequence[Leaf] = ()
    """The newest `CARRIED` of each diary."""


@runtime_checkable
class House(Store, Protocol):
    """A store that can be left and filled. Each operation is atomic and heeds only the notice of its move."""

    def notice(self) -> Operation[Notice | None]: ...
    def arrived(self) -> Operation[str | None]: ...

    # leaving
    def seal(self, move: str, other: str) -> Operation[Notice]: ...
    def shut(self, move: str) -> Operation[Obstacles]: ...
    def pack(self, after: int, limit: int) -> Operation[list[Belonging]]: ...
    def furniture(self) -> Operation[Furniture]: ...
    def depart(self, move: str) -> Operation[bool]: ...
    def reopen(self, move: str) -> Operation[bool]: ...

    # arriving
    def receive(self, move: str, other: str) -> Operation[Notice | None]: ...
    def unpack(self, move: str, after: int, belongings: Sequence[Belonging]) -> Operation[int | None]: ...
    def furnish(self, move: str, furniture: Furniture) -> Operation[bool]: ...
    def settle_in(self, move: str) -> Operation[bool]: ...
    def clear_out(self, move: str) -> Operation[bool]: ...


# --- what a notice means to everybody else --------------------------------------------------------

PRODUCING: Final = frozenset(
    {"put", "offer", "deliver", "amend", "hold", "free", "record"}
    | {"adopt", "tend", "tidy", "plan", "scan", "reconcile", "revisit"}
)
"""What would add to a store that is being left."""
UPKEEP: Final = frozenset({"prune", "jot", "grip", "keep_grip", "let_go"})
"""What bodies and workers need to the end of their run."""


def check(operation: str, notice: Notice | None) -> None:
    """Raise where the notice keeps an operation out."""
    if notice is None or operation not in PRODUCING | UPKEEP:
        return
    if notice.stage is Stage.ARRIVING:
        raise StoreUnavailable(
            f"This store is being filled from {notice.other}. Try again when `duly move` has ended."
        )
    if notice.stage is not Stage.SEALED or operation in PRODUCING:
        raise StoreMoved(notice.other)


def check_level(operation: str, level: int, oldest_code: int) -> None:
    """Raise where a schema that newer code migrated keeps older code from adding to it."""
    if oldest_code > level and operation in PRODUCING:
        raise SchemaMismatch(
            f"This store was migrated for newer code: it serves schema level {oldest_code} and later, "
            f"this version of Duly is at {level}. Upgrade duly in this process."
        )


def allowed(ask: Ask, notice: Notice | None, *, is_outdated: bool = False) -> Ask:
    """What may be lent: behind a notice, or to code that is too old, nothing.

    Jobs of workers that died are still taken back.
    """
    return ask if notice is None and not is_outdated else replace(ask, lanes={})


def hears(notice: Notice | None) -> bool:
    """Whether verdicts count: once everything stands still, only late ones can come."""
    return notice is None or notice.stage is Stage.SEALED
