"""jot, diary: short texts one after the other, decided on alike by all stores with tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Protocol

from duly.stores.drive import Statement, Steps
from duly.stores.reports import Entry
from duly.stores.tables.instants import instant, span, stamp_or_none

BEYOND: Final = 2**62
"""More entries than anybody writes."""


class Desk(Protocol):
    """The store at one moment."""

    @property
    def now(self) -> int: ...
    def draw(self) -> Steps[int]: ...


def jot(
    desk: Desk, sql: Mapping[str, str], entry: Mapping[str, str], keep: timedelta, number: int | None
) -> Steps[int]:
    """Rewrite the entry of that number, or add one."""
    written = dict(entry)
    if number is not None and (yield Statement(sql["rewrite"], written | {"number": number})):
        return number
    drawn = yield from desk.draw()
    times = {"at": desk.now, "until": desk.now + span(keep)}
    yield Statement(sql["add"], written | times | {"number": drawn})
    return drawn


def diary(
    sql: Mapping[str, str], kind: str, limit: int, before: int | None, since: datetime | None
) -> Steps[list[Entry]]:
    """Newest first."""
    page = {
        "kind": kind,
        "limit": limit,
        "before": BEYOND if before is None else before,
        "since": stamp_or_none(since) or 0,
    }
    return [Entry(number, instant(at), text) for number, at, text in (yield Statement(sql["list"], page))]
