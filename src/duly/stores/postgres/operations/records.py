"""record, records: small named texts, such as definitions of schedules."""

from __future__ import annotations

from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.arrays import restored, stored, stored_or_none
from duly.stores.postgres.operations.texts import statements

SQL = statements("records")


def record(kind: str, name: str, text: str | None) -> Steps[None]:
    """Write it down, or with None erase it."""
    named = {"kind": kind, "name": stored(name), "text": stored_or_none(text)}
    yield Statement(SQL["erase" if text is None else "write"], named)


def records(kind: str) -> Steps[dict[str, str]]:
    """Everything of one kind, by name."""
    found = yield Statement(SQL["list"], {"kind": kind})
    return {restored(name): restored(text) for name, text in found}
