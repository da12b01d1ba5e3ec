"""What one call asks for beyond its arguments: the words of `task.using(...)`, read once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypedDict

from duly.durations import Duration, duration
from duly.errors import BadRequest
from duly.job import Overlap
from duly.options import checked_overlap, checked_priority, checked_queue
from duly.stores.callers import OpenConnection


class UsingOptions(TypedDict, total=False):
    """The keywords of `task.using(...)`."""

    key: str | None
    replace: bool
    unique_for: Duration | None
    trailing: bool
    run_after: datetime | Duration | None
    queue_name: str
    priority: int
    overlap: Literal["queue_one", "skip", "allow", "cancel_previous"]
    expires: Duration | None
    connection: OpenConnection | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The same in types; what is None falls back to the task's declaration."""

    key: str | None = None
    replaces: bool = False
    unique_for: timedelta | None = None
    trailing: bool = False
    run_after: datetime | None = None
    delay: timedelta | None = None
    queue_name: str | None = None
    priority: int | None = None
    overlap: Overlap | None = None
    expires: timedelta | None = None
    connection: Any = None


def read_wishes(before: Wishes, given: UsingOptions) -> Wishes:
    """Later calls of using() refine earlier ones; a mistake is named before anything is stored."""
    changes: dict[str, Any] = {}
    for word, value in given.items():
        reader = READERS.get(word)
        if reader is None:
            raise BadRequest(f"using() has no option {word!r}. Options: {', '.join(READERS)}.")
        changes |= reader(value)
    return replace(before, **changes)


def _when(value: datetime | Duration | None) -> dict[str, Any]:
    if value is None:
        return {"run_after": None, "delay": None}
    if not isinstance(value, datetime):
        return {"run_after": None, "delay": duration(value, what="run_after")}
    if value.utcoffset() is None:
        raise BadRequest(
            f"run_after={value!r} has no time zone. Use an aware datetime, or a wait such as '10s'."
        )
    return {"run_after": value, "delay": None}


def _checked_key(key: object) -> str | None:
    if key is None:
        return None
    if not isinstance(key, str) or not key or len(key) > 500 or "\x00" in key or not _is_encodable(key):
        raise BadRequest(f"key={key!r} cannot be used: a key is 1 to 500 characters of text without NUL.")
    return key


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _span(what: str) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {what: None if value is None else duration(value, what=what, allow_zero=False)}


READERS: Final[Mapping[str, Callable[[Any], dict[str, Any]]]] = {
    "key": lambda value: {"key": _checked_key(value)},
    "replace": lambda value: {"replaces": bool(value)},
    "unique_for": _span("unique_for"),
    "trailing": lambda value: {"trailing": bool(value)},
    "run_after": _when,
    "queue_name": lambda value: {"queue_name": checked_queue(value)},
    "priority": lambda value: {"priority": checked_priority(value)},
    "overlap": lambda value: {"overlap": checked_overlap(value)},
    "expires": _span("expires"),
    "connection": lambda value: {"connection": value},
}
