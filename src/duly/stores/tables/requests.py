"""A request as text, for the intake and the outbox, where it waits until the engine can place it."""

from __future__ import annotations

import json
from dataclasses import fields
from types import UnionType
from typing import Any, Final

from duly.job import Clash, Delivery, Guard, Keep, Overlap, Request
from duly.stores.tables.instants import (
    duration,
    duration_or_none,
    instant_or_none,
    span,
    span_or_none,
    stamp_or_none,
)

FORMAT: Final = 1
"""Rises when `encode` learns to write what older code cannot read: a field's new meaning, a new word."""
FIELDS: Final = frozenset(field.name for field in fields(Request))
PLAIN: Final[dict[str, type | UnionType]] = {
    "id": str,
    "task": str,
    "arguments": str,
    "queue": str,
    "priority": int,
    "key": str | None,
    "serial": str | None,
    "per_key": int,
    "perpetual": bool,
    "context": str,
}
"""Fields that are written as they are."""


def encode(request: Request) -> str:
    """A request as text."""
    guard = request.guard
    values: dict[str, Any] = {
        "id": request.id,
        "task": request.task,
        "arguments": request.arguments,
        "queue": request.queue,
        "priority": request.priority,
        "key": request.key,
        "serial": request.serial,
        "run_after": stamp_or_none(request.run_after),
        "delay": span_or_none(request.delay),
        "expires_after": span_or_none(request.expires_after),
        "clash": request.clash,
        "overlap": request.overlap,
        "per_key": request.per_key,
        "guard": None if guard is None else [span(guard.window), guard.trailing],
        "delivery": request.delivery,
        "keep": [span(request.keep.done), span(request.keep.failed)],
        "perpetual": request.perpetual,
        "tick": stamp_or_none(request.tick),
        "context": request.context,
    }
    return json.dumps(values)


def decode(text: str) -> Request:
    """The request that `encode` wrote; a field that only newer code knows is left to newer code."""
    values: dict[str, Any] = {name: value for name, value in json.loads(text).items() if name in FIELDS}
    for name, kind in PLAIN.items():
        if not isinstance(values[name], kind):
            raise TypeError(f"{name} is of type {type(values[name]).__name__}")
    guard, keep = values["guard"], values["keep"]
    values |= {
        "run_after": instant_or_none(values["run_after"]),
        "delay": duration_or_none(values["delay"]),
        "expires_after": duration_or_none(values["expires_after"]),
        "clash": Clash(values["clash"]),
        "overlap": Overlap(values["overlap"]),
        "guard": None if guard is None else Guard(duration(guard[0]), trailing=guard[1]),
        "delivery": Delivery(values["delivery"]),
        "keep": Keep(duration(keep[0]), duration(keep[1])),
        "tick": instant_or_none(values["tick"]),
    }
    return Request(**values)
