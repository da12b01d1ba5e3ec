"""What a look at one row means for its task: run, cancel what waits, forget, or nothing.

Pure: a store locks the document, reads its record and afterwards its row, asks `decide`, and writes what it
says. Values are compared by their fingerprint, in which two nulls are alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import isfinite
from typing import Any, Final, NamedTuple, cast

from duly import codec
from duly.errors import BadRequest
from duly.ids import new_id
from duly.job import Request, State
from duly.reactive.reaction import Evolution, Existing, Reaction, fingerprint

COUNTS: Final = frozenset({State.WAITING, State.RUNNING, State.DONE})
"""Ends of a run after which its values need not be dealt with again."""
GONE: Final = "gone"
"""What was seen of a row that is no longer there."""


class Kind(StrEnum):
    """What happened to a row."""

    CHANGED = "changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A row, as it was just read."""

    matches: bool
    seen: str = ""
    """The fingerprint of its watched values."""
    values: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of a document: which values were last dealt with, and by which job."""

    seen: str | None = None
    """None when they were not dealt with after all."""
    is_matched: bool = False
    job: str | None = None
    job_state: State | None = None
    """None when the job is no longer there; then it ended well, since others clear `seen` when they go."""
    since: datetime | None = None
    """When the first change was seen that the waiting job stands for."""
    told: str | None = None
    """The values last seen, packed, for a handler that wants to hear of deletions."""

    @property
    def counted(self) -> str | None:
        """The values that a run has dealt with, or will."""
        has_counted = self.job is None or self.job_state is None or self.job_state in COUNTS
        return self.seen if has_counted else None

    @property
    def is_waiting(self) -> bool:
        """A run is planned and has not begun."""
        return self.job_state is State.WAITING


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to write."""

    record: Record | None
    """None: forget the document."""
    run: Kind | None = None
    values: Mapping[str, Any] | None = None
    due_in: timedelta = timedelta(0)
    ends: State | None = None
    """What becomes of a job that waits: it is no longer wanted."""


NOTHING: Final = Plan(record=None)


def decide(
    record: Record | None, row: Sight | None, reaction: Reaction, now: datetime, *, ignores: bool = False
) -> Plan:
    """One document. With `ignores` a row that nobody knew yet is noted and not run."""
    if row is None:
        return _gone(record, reaction)
    if not row.matches:
        return NOTHING if record is None else _left(record)
    if record is None and ignores:
        return Plan(record=_noted(Record(), row, reaction))
    if record is not None and record.is_matched and record.counted == row.seen:
        return Plan(record=record)
    return _due(record or Record(), row, reaction, now)


def _due(record: Record, row: Sight, reaction: Reaction, now: datetime) -> Plan:
    since = record.since if record.is_waiting and record.since is not None else now
    latest = since + reaction.max_wait
    due_in = min(reaction.debounce, max(latest - now, timedelta(0)))
    noted = replace(_noted(record, row, reaction), since=since)
    return Plan(record=noted, run=Kind.CHANGED, values=row.values, due_in=due_in)


def _noted(record: Record, row: Sight, reaction: Reaction) -> Record:
    told = packed(row.values) if reaction.on_delete else None
    return replace(record, seen=row.seen, is_matched=True, told=told)


def _left(record: Record) -> Plan:
    """No longer matching: what waits is not wanted, and the next match runs whatever it brings."""
    cleared = replace(record, seen=None, is_matched=False, since=None)
    return Plan(record=cleared, ends=State.CANCELLED if record.is_waiting else None)


def _gone(record: Record | None, reaction: Reaction) -> Plan:
    if record is None:
        return NOTHING
    if reaction.on_delete and (record.is_matched or record.seen == GONE):
        return _bereft(record)
    cleared = replace(record, seen=None, is_matched=False, since=None)
    return Plan(record=cleared, ends=State.SKIPPED if record.is_waiting else None)


def _bereft(record: Record) -> Plan:
    """The task wants to hear of it, once, with the last values it was to know."""
    if record.counted == GONE:
        return Plan(record=record)
    told = None if record.told is None else restored_all(codec.unpack_value(record.told))
    gone = replace(record, seen=GONE, is_matched=False, since=None)
    return Plan(record=gone, run=Kind.DELETED, values=told)


# --- the job it becomes ---------------------------------------------------------------------------


def sight_of(columns: Sequence[str], raw: Sequence[Any]) -> str:
    """The fingerprint of watched values, as the database gave them: text, numbers, bytes or nothing."""
    return fingerprint([[column, repr(value)] for column, value in zip(columns, raw, strict=True)])


HEX: Final = "duly:text"


def carried(value: Any) -> Any:
    """A value as a job can carry it: what is no finite number is written out, and so are zero characters."""
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, str) and "\0" in value:
        return {HEX: value.encode().hex()}
    return value


def restored(value: Any) -> Any:
    """A value as it was."""
    text = cast(dict[str, Any], value).get(HEX) if isinstance(value, dict) else None
    return cast(Any, value) if text is None else bytes.fromhex(text).decode()


def restored_all(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Values as they were."""
    return None if values is None else {name: restored(value) for name, value in values.items()}


def _carried_all(values: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if values is None else {name: carried(value) for name, value in values.items()}


def packed(values: Mapping[str, Any] | None) -> str | None:
    """Values for the record, unless they cannot be carried about."""
    if values is None:
        return None
    try:
        return codec.pack_value(_carried_all(values))
    except BadRequest:
        return None


class Terms(NamedTuple):
    """Which columns name a row, and which of them matter."""

    key: tuple[str, ...]
    watch: tuple[str, ...]


def request_for(reaction: Reaction, plan: Plan, *, key: str, parts: Sequence[Any], terms: Terms) -> Request:
    """The run that a plan asks for."""
    assert plan.run is not None
    assert plan.record is not None
    facts = {
        "key": [carried(part) for part in parts],
        "values": _carried_all(plan.values),
        "by": list(terms.key),
        "watch": list(terms.watch),
        "seen": plan.record.seen,
        "kind": str(plan.run),
        "version": reaction.version,
    }
    return Request(
        id=new_id(),
        task=reaction.task,
        arguments=_arguments(facts),
        queue=reaction.queue,
        priority=reaction.priority,
        key=key,
        delay=plan.due_in or None,
        expires_after=reaction.expires,
        delivery=reaction.delivery,
        keep=reaction.keep,
    )


def _arguments(facts: dict[str, Any]) -> str:
    """Values beyond the cap, or that nothing can carry, stay behind: the body can still read the row."""
    try:
        return codec.pack((facts,), {})
    except BadRequest:
        return codec.pack((facts | {"values": None},), {})


# --- when a definition changes --------------------------------------------------------------------


class Upheaval(StrEnum):
    """What a new definition asks for."""

    NOTHING = "nothing"
    LOOK = "look"
    """At every row, by the ordinary rules."""
    LOOK_QUIETLY = "look quietly"
    """At every row, without running those that nobody knew yet."""
    RUN_ALL = "run all"


def upheaval(before: Reaction | None, after: Reaction) -> Upheaval:
    """What must be looked at again when one definition takes the place of another."""
    if before is None:
        return Upheaval.LOOK if after.existing is Existing.RUN else Upheaval.LOOK_QUIETLY
    is_higher = after.version > before.version
    if is_higher and after.on_version_change is Evolution.REPROCESS_ALL:
        return Upheaval.RUN_ALL
    if before.digest != after.digest:
        return Upheaval.LOOK
    has_failed = is_higher and after.on_version_change is Evolution.REPROCESS_FAILED
    return Upheaval.LOOK if has_failed else Upheaval.NOTHING
