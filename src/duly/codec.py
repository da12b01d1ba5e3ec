"""Arguments and results as JSON text, and back exactly as they were, or not at all.

Plain JSON values are written as plain JSON, so that a person or another program can read a job. What
JSON lacks is written as an object whose "$" says what it is (`tags.py`). The text of a call is
`[args, kwargs]`. There is no pickle here and no way to add it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from json.scanner import make_scanner
from typing import Any, Final, NoReturn, cast

from duly.errors import ArgumentsTooLarge, Undecodable
from duly.tags import Place, register, revive, write, write_dict

__all__ = ["CAP", "pack", "pack_value", "register", "unpack", "unpack_value"]

CAP: Final = 256_000
_DEEPEST: Final = 100
_HIGH: Final = 1 << 2048  # longer numbers are tagged: interpreters may refuse more than 640 digits
_LOW: Final = -_HIGH
_SHORT: Final = 600
"""Characters in which no number that needs a tag can be written."""
_ATOMS: Final = frozenset({str, bool, float, type(None)})
_KINDS: Final = _ATOMS | {int}


def pack(args: tuple[Any, ...], kwargs: dict[str, Any], *, cap: int = CAP) -> str:
    """The text of a call, or a BadRequest that says which argument cannot be stored and what to do."""
    if not kwargs and _KINDS.issuperset(map(type, args)):  # most calls, in a third of the time
        text = _plainly((args, kwargs))
        if text is not None and len(text) <= _SHORT and len(text) * 4 <= cap:
            return text
    return _capped(_packed(args, kwargs), cap)


def _packed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    is_plain = all([_is_plain(value) for value in args]) and _is_plain(kwargs)  # noqa: C419  faster
    text = _plainly((args, kwargs)) if is_plain else None
    if text is None:
        written = [write(value, Place("args", index, args)) for index, value in enumerate(args)]
        text = _encode([written, write_dict(kwargs, "kwargs")])
    return text


def unpack(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The call that `pack` wrote, or Undecodable."""
    call: Any = _decode(text)
    if call.__class__ is list and len(call) == 2:
        args, kwargs = call
        if args.__class__ is list and kwargs.__class__ is dict:
            return tuple(args), kwargs
    raise Undecodable(f"{_shown(text)} is not the text of a call, [args, kwargs].")


def pack_value(value: object, *, cap: int = CAP) -> str:
    """The text of one value, such as a result."""
    text = _plainly(value) if _is_plain(value) else None
    return _capped(_encode(write(value, Place("value"))) if text is None else text, cap)


def unpack_value(text: str) -> Any:
    """The value that `pack_value` wrote, or Undecodable."""
    return _decode(text)


def _is_plain(value: object, room: int = _DEEPEST) -> bool:
    """Whether JSON alone can say it exactly: by exact type, because JSON forgets what a subclass was."""
    kind = type(value)
    if kind is int:
        return _LOW < cast("int", value) < _HIGH
    if kind in _ATOMS:
        return True
    if not room:
        return False
    if kind is list:
        return all([_is_plain(each, room - 1) for each in cast(list[object], value)])  # noqa: C419  faster
    return kind is dict and _is_plain_dict(cast(dict[object, object], value), room - 1)


def _is_plain_dict(value: dict[object, object], room: int) -> bool:
    if "$" in value:
        return False
    return all([type(key) is str and _is_plain(each, room) for key, each in value.items()])  # noqa: C419


def _plainly(value: object) -> str | None:
    """Plain values in one go; None if some string or number needs the careful way, which names its place."""
    try:
        text = _encode(value)
        if not text.isascii():
            text.encode()
    except ValueError:  # not a number, infinite, or half of a surrogate pair
        return None
    return None if "\\u0000" in text else text


def _capped(text: str, cap: int) -> str:
    size = len(text) if text.isascii() else len(text.encode())
    if size > cap:
        raise ArgumentsTooLarge(size, cap)
    return text


def _decode(text: str) -> Any:
    try:
        decoder, scan = _TAGGED if '"$"' in text else _PLAIN
        if text[:1] == "[":  # a call, mostly as `pack` wrote it: no white space to look for
            value, end = scan(text, 0)
            if end == len(text):
                return value
        return decoder.decode(text)
    except StopIteration as stop:
        raise Undecodable(f"{_shown(text)} is not valid JSON: no value at character {stop.value}.") from None
    except RecursionError:
        raise Undecodable(f"{_shown(text)} is nested too deeply.") from None
    except (ValueError, TypeError) as complaint:
        raise Undecodable(f"{_shown(text)} is not valid JSON: {complaint}.") from None


def _finite(number: str) -> float:
    value = float(number)
    return value if value - value == 0 else _no_number(number)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a finite number")


def _shown(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


def _encoding(encoder: json.JSONEncoder) -> Callable[[Any], str]:
    """Its `encode`, which makes an encoder in C anew for every value: more work than writing a small one."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without it
        return encoder.encode
    texts, join = json.encoder.encode_basestring, "".join
    written = make(
        None, encoder.default, texts, None, encoder.key_separator, encoder.item_separator,
        encoder.sort_keys, encoder.skipkeys, encoder.allow_nan,
    )  # fmt: skip
    return lambda value: join(written(value, 0))


def _decoding(decoder: json.JSONDecoder) -> tuple[json.JSONDecoder, Callable[[str, int], tuple[Any, int]]]:
    """Beside it the function that does its work, for a text that begins with what is to be read."""
    scan: Any = make_scanner(cast(Any, decoder))
    return decoder, scan


_encode: Final = _encoding(
    json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
)
_PLAIN: Final = _decoding(json.JSONDecoder(parse_float=_finite, parse_constant=_no_number))
_TAGGED: Final = _decoding(
    json.JSONDecoder(parse_float=_finite, parse_constant=_no_number, object_hook=revive)
)
