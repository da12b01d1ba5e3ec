"""jot, diary: short texts one after the other, each kept for a while."""

from __future__ import annotations

from datetime import datetime, timedelta

from duly.stores.drive import Steps
from duly.stores.reports import Entry
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables import diary as tables

SQL = statements("diary")


def jot(world: World, kind: str, text: str, keep: timedelta, number: int | None) -> Steps[int]:
    """Rewrite the entry of that number, or add one."""
    return (yield from tables.jot(world, SQL, {"kind": kind, "text": text}, keep, number))


def diary(kind: str, limit: int, before: int | None, since: datetime | None) -> Steps[list[Entry]]:
    """Newest first."""
    return (yield from tables.diary(SQL, kind, limit, before, since))
