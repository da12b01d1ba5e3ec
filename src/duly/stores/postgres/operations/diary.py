"""jot, diary: short texts one after the other, each kept for a while."""

from __future__ import annotations

from datetime import datetime, timedelta

from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.arrays import restored, stored
from duly.stores.postgres.operations.select import NEVER
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.reports import Entry
from duly.stores.tables.instants import instant, span, stamp_or_none

SQL = statements("diary")


def jot(world: World, kind: str, text: str, keep: timedelta, number: int | None) -> Steps[int]:
    """Rewrite the entry of that number, or add one."""
    written = {"kind": kind, "text": stored(text)}
    if number is not None and (yield Statement(SQL["rewrite"], written | {"number": number})):
        return number
    drawn = yield from world.draw()
    times = {"at": world.now, "until": world.now + span(keep)}
    yield Statement(SQL["add"], written | times | {"number": drawn})
    return drawn


def diary(kind: str, limit: int, before: int | None, since: datetime | None) -> Steps[list[Entry]]:
    """Newest first."""
    page = {
        "kind": kind,
        "limit": limit,
        "before": NEVER if before is None else before,
        "since": stamp_or_none(since) or 0,
    }
    found = yield Statement(SQL["list"], page)
    return [Entry(number, instant(at), restored(text)) for number, at, text in found]
