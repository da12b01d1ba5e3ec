"""Following the user's tables: what a store offers that can hold them beside the jobs.

Triggers append the keys of changed rows; planning consumes these, never follows them with a cursor. A look
at every row (a *scan*) only appends keys too, so that there is one way from a row to its run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from duly.job import State
from duly.reactive.change import Facts, Found
from duly.reactive.reaction import Reaction
from duly.stores.contract import Store
from duly.stores.drive import Operation

ABANDONED: Final = timedelta(minutes=10)
"""How long no worker may have known a task before nothing is planned for it."""
FLOOD: Final = 100_000
"""Unplanned changes above which a look at every row is cheaper."""
LARGEST_LOG: Final = 268_435_456
"""Bytes, on PostgreSQL, above which triggers append no more: some five million changes."""


class Condition(StrEnum):
    """How a reactive task stands."""

    NEW = "new"
    """Its triggers are not installed yet."""
    ACTIVE = "active"
    PARKED = "parked"
    """Its table cannot be followed at the moment; `note` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A reactive task, as the store has it."""

    reaction: Reaction
    condition: Condition
    note: str = ""
    documents: int = 0
    """How many rows are known to match."""
    is_scanning: bool = False
    scanned: int = 0
    """Rows the scan in progress has looked at, or the last one had."""
    reconciled_at: datetime | None = None
    """When the last scan ended."""


class Planned(NamedTuple):
    """What one round of planning did."""

    changes: int = 0
    """How many were consumed; 0 when there was nothing to plan."""
    runs: int = 0
    """How many jobs were put."""


class Tended(NamedTuple):
    """What became of a look after one task."""

    condition: Condition
    note: str = ""
    is_mistaken: bool = False
    """What it declares cannot work on the table that is there: a mistake, not an accident."""
    is_busy: bool = False
    """Somebody held the table: try again soon."""
    is_repaired: bool = False
    """Its triggers had vanished, and every row is looked at again."""


class Glance(NamedTuple):
    """What a read of one row is about."""

    task: str
    facts: Facts
    columns: tuple[str, ...] | None = None
    locks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which documents of a task: every given field must match."""

    task: str
    key: str | None = None
    states: tuple[State, ...] = ()
    error: str | None = None
    where: str | None = None
    """SQL about the row itself: the author's code."""


@runtime_checkable
class Changes(Store, Protocol):
    """A store that can follow tables. Each operation is atomic."""

    planning_time: timedelta
    """How long a transaction of planning should take, for the sake of others."""

    def adopt(self, reactions: Sequence[Reaction]) -> Operation[Mapping[str, Reaction]]:
        """Bring definitions; answers, by task, which one is in force where it is another."""
        ...

    def standings(self) -> Operation[list[Standing]]: ...

    def tend(self, task: str) -> Operation[Tended]:
        """Check table, columns and triggers of one task, install what is missing, park what cannot work."""
        ...

    def tidy(self) -> Operation[int]:
        """Forget documents whose time is over, and park tasks that left the code."""
        ...

    def has_changes(self) -> Operation[bool]:
        """Whether a round of planning or scanning would find anything."""
        ...

    def plan(self, limit: int) -> Operation[Planned]:
        """Consume changes, lock their documents, read their rows afterwards, and put their jobs."""
        ...

    def examine(self, task: str) -> Operation[str | None]:
        """After planning failed: park a task whose rows cannot be looked at, and say why."""
        ...

    def scan(self, limit: int) -> Operation[int | None]:
        """The next step of a scan: how many rows were noted; None when nothing is left to scan."""
        ...

    def reconcile(self, task: str) -> Operation[None]:
        """Look at every row of a task from the beginning."""
        ...

    def revisit(self, choice: Choice) -> Operation[int]:
        """Have documents run again, whatever was dealt with; answers how many."""
        ...

    def chosen(self, choice: Choice) -> Operation[list[str]]:
        """The jobs last planned for these documents."""
        ...

    def foretell(self, task: str) -> Operation[int]:
        """How many rows a scan would run now."""
        ...

    def name_row(self, task: str, key: Sequence[Any]) -> Operation[str]:
        """The text that names a row to people, from the values of its key's columns."""
        ...

    def read_row(self, glance: Glance) -> Operation[Found | None]: ...

    def hold_row(self, glance: Glance) -> Operation[None]:
        """Keep a row as it is until the transaction ends, if that can be had within a moment."""
        ...


class Column(NamedTuple):
    """A column of the user's table."""

    name: str
    kind: str
    """The database's name for its type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anatomy:
    """What the database knows of a table."""

    columns: Mapping[str, Column]
    primary_key: tuple[str, ...]
    unique: tuple[frozenset[str], ...]
    """Sets of columns that name a row, the primary key among them."""
    schema: str | None = None
    oid: int = 0


class Impossible(Exception):
    """Why a table cannot be followed as declared."""


class Absent(Impossible):
    """There is no such table, now."""


class Busy(Exception):
    """Somebody holds the table: nothing is waited for, and it is tried again soon."""


def key_of(reaction: Reaction, anatomy: Anatomy) -> tuple[str, ...]:
    """The columns that name a row, or what is wrong with them."""
    if reaction.key is None and not anatomy.primary_key:
        raise Impossible(
            f"Table {reaction.table} has no primary key: say what names a row, with key='…'. "
            f"Its columns: {', '.join(anatomy.columns)}."
        )
    key = reaction.key or anatomy.primary_key
    check_columns(reaction, anatomy, key, "key")
    if not any(one <= set(key) for one in anatomy.unique):
        raise Impossible(
            f"Key {', '.join(key)} does not name one row of {reaction.table}: "
            "use the primary key, or columns with a unique constraint."
        )
    return key


def watch_of(reaction: Reaction, anatomy: Anatomy) -> tuple[str, ...]:
    """The columns whose change matters."""
    watch = tuple(anatomy.columns) if reaction.watch is None else reaction.watch
    check_columns(reaction, anatomy, watch, "watch")
    return watch


def check_columns(reaction: Reaction, anatomy: Anatomy, names: Sequence[str], what: str) -> None:
    """Columns that the table does not have are named, with those it has."""
    unknown = [name for name in names if name not in anatomy.columns]
    if unknown:
        raise Impossible(
            f"Table {reaction.table} has no column {unknown[0]!r} ({what}). "
            f"Its columns: {', '.join(anatomy.columns)}."
        )


def no_table(reaction: Reaction) -> Absent:
    """The table is not there, or not any more."""
    return Absent(
        f"There is no table {reaction.table} in this database. The task resumes by itself when there is one."
    )


def bad_where(reaction: Reaction, complaint: str) -> Impossible:
    """The database does not accept the condition as one about the row alone."""
    return Impossible(
        f"where={reaction.where!r} cannot be followed on table {reaction.table}: {complaint}. It may speak "
        "of columns of the row only: no change of a row tells of time passing or of other tables. For time "
        "use @app.schedule; for other tables keep what decides in a column, by a trigger of your own."
    )
