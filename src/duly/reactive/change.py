"""`Change`: what a reactive task's body is told, and the way to the row as it is now."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from duly.errors import BadRequest, ConditionFailed
from duly.reactive.plan import GONE, Kind, restored, restored_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a job says about its document."""

    key: tuple[Any, ...]
    values: Mapping[str, Any] | None
    watch: tuple[str, ...]
    seen: str | None
    by: tuple[str, ...] = ()
    """The columns of the key, when the run was planned."""
    kind: Kind = Kind.CHANGED
    version: int = 1

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Facts:
        """From a job's arguments."""
        return cls(
            key=tuple(restored(part) for part in plain["key"]),
            values=restored_all(plain["values"]),
            watch=tuple(plain["watch"]),
            seen=plain["seen"],
            by=tuple(plain["by"]),
            kind=Kind(plain["kind"]),
            version=plain["version"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A row, as one read found it; None where there is none."""

    matches: bool
    seen: str
    row: Mapping[str, Any]


class Reader(Protocol):
    """Who reads rows: the application, on the connection that was asked for."""

    def read(
        self, facts: Facts, columns: Sequence[str] | None, connection: Any, *, locks: bool
    ) -> Found | None: ...
    def aread(
        self, facts: Facts, columns: Sequence[str] | None, connection: Any, *, locks: bool
    ) -> Awaitable[Found | None]: ...


class Change:
    """A row that changed. In a test make one by hand: `Change(key=17, row={"status": "paid"})`."""

    def __init__(
        self,
        *,
        key: Any,
        values: Mapping[str, Any] | None = None,
        kind: str = "changed",
        row: Mapping[str, Any] | None = None,
        facts: Facts | None = None,
        reader: Reader | None = None,
    ) -> None:
        self.key = key
        """What names the row: a value, or a tuple where several columns do."""
        self.kind = str(kind)
        """"changed", or "deleted" for a task with on_delete=True."""
        self._values = values if values is not None or facts is not None else row
        self._row = row
        self._facts = facts
        self._reader = reader

    @classmethod
    def of(cls, facts: Facts, reader: Reader) -> Change:
        """The change that a job is about."""
        key = facts.key[0] if len(facts.key) == 1 else facts.key
        return cls(key=key, values=facts.values, kind=facts.kind, facts=facts, reader=reader)

    def __repr__(self) -> str:
        return f"<Change {self.key!r} {self.kind}>"

    @property
    def values(self) -> Mapping[str, Any]:
        """The watched values for which this run was planned; of a deleted row, the last ones."""
        if self._values is None:
            raise BadRequest(
                f"The watched values of {self.key!r} are too large to travel with the job. "
                "Read them with change.document(), or watch fewer columns."
            )
        return self._values

    def document(
        self, columns: Sequence[str] | None = None, *, connection: Any = None, lock: bool = False
    ) -> Mapping[str, Any]:
        """The row as it is now, if it is there, still matches and its watched values have not changed.

        Else ConditionFailed: the run is skipped. With `connection` it is read in a transaction of the body's
        own, and with `lock=True` kept as it is until that ends. An exactly-once run reads in its transaction.
        """
        if self._reader is None or self._facts is None:
            return self._given(columns)
        return judged(self._facts, self._reader.read(self._facts, columns, connection, locks=lock))

    async def adocument(
        self, columns: Sequence[str] | None = None, *, connection: Any = None, lock: bool = False
    ) -> Mapping[str, Any]:
        """The async twin of document."""
        if self._reader is None or self._facts is None:
            return self._given(columns)
        found = await self._reader.aread(self._facts, columns, connection, locks=lock)
        return judged(self._facts, found)

    def _given(self, columns: Sequence[str] | None) -> Mapping[str, Any]:
        if self._row is None:
            raise ConditionFailed(f"Row {self.key!r} is no longer there.")
        return {name: self._row[name] for name in columns or self._row}


def judged(facts: Facts, found: Found | None) -> Mapping[str, Any]:
    """The row, or which of the three conditions no longer holds."""
    reason = complaint(facts, found)
    if reason is not None:
        raise ConditionFailed(reason)
    assert found is not None
    return found.row


def complaint(facts: Facts, found: Found | None) -> str | None:
    """Why a run must not count, if it must not: it would act on what is no longer so."""
    shown = facts.key[0] if len(facts.key) == 1 else facts.key
    if facts.kind is Kind.DELETED or found is None:
        return f"Row {shown!r} is no longer there."
    if not found.matches:
        return f"Row {shown!r} no longer matches `where`."
    if found.seen != facts.seen:
        return f"Row {shown!r} has changed since this run was planned; a run for its new values follows."
    return None


def outdated(facts: Facts, found: Found | None) -> str | None:
    """The same at the end of a run that was about a deleted row: it must not have come back."""
    if facts.kind is Kind.DELETED:
        shown = facts.key[0] if len(facts.key) == 1 else facts.key
        return None if found is None or facts.seen != GONE else f"Row {shown!r} is there again."
    return complaint(facts, found)
