"""A crontab of Celery's as a cron line.

Celery lets ranges run over their end (`fri-mon`, `22-2`) and wants day of month *and* day of week to match;
cron takes either. What cannot be said is an error that says why.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from duly.errors import DefinitionError
from duly.ticks import Cron

DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
FIELDS: Final = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day_of_month", 1, 31),
    ("month_of_year", 1, 12),
    ("day_of_week", 0, 6),
)
_RANGE: Final = re.compile(r"(\d+)-(\d+)(?:/(\d+))?")


def cron_line(row: dict[str, Any]) -> str:
    """The line for a row that has a crontab; checked as Duly will check it."""
    fields = [_field(str(row[name]), name, low, high) for name, low, high in FIELDS]
    if fields[2] != "*" and fields[4] != "*":
        raise DefinitionError(
            f"day of month {fields[2]} and day of week {fields[4]}: Celery wants both to match, a cron line "
            "takes either. Schedule one of them and look at run.tick for the other"
        )
    line = " ".join(fields)
    Cron(line, str(row["timezone"] or "UTC"))
    return line


def _field(text: str, name: str, low: int, high: int) -> str:
    text = re.sub(r"\s+", "", text).lower()
    if name == "day_of_week":
        text = re.sub(r"[a-z]+", _day_number, text)
    return ",".join(_part(part, low, high) for part in text.split(","))


def _day_number(name: re.Match[str]) -> str:
    if name[0][:3] not in DAYS:
        raise DefinitionError(f"{name[0]!r} is no day of the week")
    return str(DAYS.index(name[0][:3]))


def _part(part: str, low: int, high: int) -> str:
    found = _RANGE.fullmatch(part)
    if found is None or int(found[1]) <= int(found[2]):
        return part
    return _wrapped(found, low, high)


def _wrapped(found: re.Match[str], low: int, high: int) -> str:
    """`22-2` is 22, 23, 0, 1, 2."""
    first, last, step = int(found[1]), int(found[2]), int(found[3] or 1)
    span: Callable[[int, int], range] = lambda start, end: range(start, end + 1)  # noqa: E731
    values = [*span(first, high), *span(low, last)][::step]
    return ",".join(str(value) for value in values)
