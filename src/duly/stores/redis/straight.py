"""Requests for the short script, which reads nothing: what such jobs have in common comes as it is stored.

So values are packed here as the scripts pack them (MessagePack, each number as short as it goes).
"""

from __future__ import annotations

import struct
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from duly.bundle import Bundle
from duly.stores.redis.moment import span, stamp
from duly.stores.redis.packing import bodies_of, encoded
from duly.stores.redis.wires import Spoken, spoken

Value = str | int | bool | None

_UNSIGNED: Final = ((0xFF, ">BB", 0xCC), (0xFFFF, ">BH", 0xCD), (0xFFFFFFFF, ">BI", 0xCE))
_LENGTHS: Final = ((0xFF, ">BB", 0xD9), (0xFFFF, ">BH", 0xDA), (0xFFFFFFFF, ">BI", 0xDB))


class Kind(NamedTuple):
    """What many jobs have in common."""

    task: str
    queue: str
    priority: int
    keep_done: timedelta
    keep_failed: timedelta
    overlap: str
    per_key: int
    perpetual: bool
    tick: datetime | None
    delivery: str


def straight_words(requests: Bundle) -> Spoken:
    """A bundle, for `straight`."""
    asked = requests.pattern
    keep, delay = asked.keep, asked.delay
    kind = Kind(
        asked.task, asked.queue, asked.priority, keep.done, keep.failed, asked.overlap, asked.per_key,
        asked.perpetual, asked.tick, asked.delivery,
    )  # fmt: skip
    moment = b"+%d" % (0 if delay is None else span(delay))
    if asked.run_after is not None:
        moment = b"%d" % stamp(asked.run_after)
    own = [moment]
    for job_id, body in zip(requests.ids, bodies_of(requests), strict=True):
        own += (encoded(job_id), encoded(body))
    shared, further = _of_kind(kind), spoken(own)
    return Spoken(shared.words + further.words, shared.text + further.text)


@lru_cache(maxsize=256)
def _of_kind(kind: Kind) -> Spoken:
    """The head of a job, what of it is shown, the end of its rest, and its lane."""
    lane = b"%d:%d:%b" % (kind.priority, len(encoded(kind.task)), encoded(kind.task + kind.queue))
    tick = None if kind.tick is None else stamp(kind.tick)
    head = _packed("waiting", 0, lane, span(kind.keep_done), 0, 0, None, "-", "", "", None)
    shown = f"null,0,0,0,0,false,{'null' if tick is None else tick},null".encode()
    rules = (str(kind.overlap), kind.per_key, kind.perpetual)
    rest = _packed(None, *rules, span(kind.keep_failed), tick, str(kind.delivery), None)
    return spoken([head, shown, rest, lane])


def _packed(*values: Value | bytes) -> bytes:
    return b"".join(map(_value, values))


def _value(value: Value | bytes) -> bytes:
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return _number(value)
    text = encoded(value) if isinstance(value, str) else value
    return _length(len(text)) + text


def _number(value: int) -> bytes:
    """No negative ones come here."""
    if value <= 0x7F:
        return struct.pack(">B", value)
    for most, form, mark in _UNSIGNED:
        if value <= most:
            return struct.pack(form, mark, value)
    return struct.pack(">BQ", 0xCF, value)


def _length(length: int) -> bytes:
    if length < 32:
        return struct.pack(">B", 0xA0 | length)
    return next(struct.pack(form, mark, length) for most, form, mark in _LENGTHS if length <= most)
