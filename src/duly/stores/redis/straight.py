"""Requests for the short script, which reads nothing: what such jobs have in common comes as it is stored.

So values are packed here as the scripts pack them (MessagePack, each number as short as it goes).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import Final, NamedTuple

from duly.bundle import Bundle
from duly.job import Clash, Delivery, Request
from duly.stores.redis.moment import span, stamp
from duly.stores.redis.packing import encoded
from duly.stores.redis.wires import Spoken, spoken

Value = str | int | bool | None

_UNSIGNED: Final = ((0xFF, ">BB", 0xCC), (0xFFFF, ">BH", 0xCD), (0xFFFFFFFF, ">BI", 0xCE))
_LENGTHS: Final = ((0xFF, ">BB", 0xD9), (0xFFFF, ">BH", 0xDA), (0xFFFFFFFF, ">BI", 0xDB))


FEW: Final = 16
"""Requests for the short script, which writes one after the other."""
MOST: Final = 256
"""Shapes that are remembered."""


class Shape(NamedTuple):
    """What the requests of a pattern have in common."""

    pattern: Request
    is_plain: bool
    """Without a key, and with no rule to be looked at."""
    words: Spoken
    context: str


_shapes: Final[dict[int, Shape]] = {}
"""By the identity of a pattern: a task keeps it from one call to the next, and comparing takes longer."""


def straight_words(requests: Sequence[Request]) -> Spoken | None:
    """Requests for `straight`; None for those that cannot take the short script."""
    if not isinstance(requests, Bundle) or len(requests.ids) > FEW:
        return None
    shape = _shape_of(requests.pattern)
    count = len(requests.ids)
    if not shape.is_plain or (count > 1 and len(set(requests.ids)) < count):
        return None
    text = shape.words.text
    for job_id, arguments in zip(requests.ids, requests.arguments, strict=True):
        its_id, body = encoded(job_id), encoded(f"{encode_basestring(arguments)},{shape.context}")
        text += b"$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(its_id), its_id, len(body), body)  # as `spoken` does
    return Spoken(shape.words.words + 2 * count, text)


def _shape_of(pattern: Request) -> Shape:
    shape = _shapes.get(id(pattern))
    if shape is None or shape.pattern is not pattern:
        shape = Shape(pattern, _is_plain(pattern), _shared(pattern), encode_basestring(pattern.context))
        if len(_shapes) >= MOST:
            _shapes.clear()
        _shapes[id(pattern)] = shape  # and so nobody else can have its identity
    return shape


def _is_plain(pattern: Request) -> bool:
    has_rules = pattern.guard is not None or pattern.expires_after is not None or pattern.clash is Clash.SEED
    is_free = pattern.lane_of_serial is None and pattern.delivery is not Delivery.AT_MOST_ONCE
    return is_free and not has_rules


def _shared(pattern: Request) -> Spoken:
    """How a job begins, the end of its rest, its lane, and when it is due."""
    task, keep = encoded(pattern.task), pattern.keep
    lane = b"%d:%d:%b%b" % (pattern.priority, len(task), task, encoded(pattern.queue))
    tick = None if pattern.tick is None else stamp(pattern.tick)
    shown = f"null,0,0,0,0,false,{'null' if tick is None else tick},null"
    beginning = _packed("waiting", 0, lane, span(keep.done), 0, 0, None, "-", "", "", None, shown)
    rules = (str(pattern.overlap), pattern.per_key, pattern.perpetual)
    rest = _packed(None, *rules, span(keep.failed), tick, str(pattern.delivery), None)
    return spoken([beginning, rest, lane, _moment(pattern)])


def _moment(pattern: Request) -> bytes:
    if pattern.run_after is not None:
        return b"%d" % stamp(pattern.run_after)
    return b"+%d" % (0 if pattern.delay is None else span(pattern.delay))


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
