"""Where a text quotes what is hidden: errors, reasons and results repeat what a body was given.

Nobody knows how a body wrote it down: as it was, escaped as Python, JSON or an address do, or cut off where
the text ends. All of these are looked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, cast
from urllib.parse import quote, quote_plus

from duly.errors import Undecodable
from duly.secrecy.names import HIDDEN
from duly.tags import revive

SIMPLE: Final = frozenset({"bytes", "date", "datetime", "decimal", "int", "time", "timedelta", "uuid"})
"""Tags of what writes itself without code of the user's."""
SHORTEST: Final = 4
"""Characters: hiding every `1` of an error would hide the error."""


def hidden_texts(raw: Any, shown: Any) -> list[str]:
    """Every form of what is not shown of a call; the longest first, as one may be a part of another."""
    found = {form for value in _hidden(raw, shown) for form in _forms(value)}
    return sorted((form for form in found if len(form) >= SHORTEST), key=len, reverse=True)


def without(text: str, hidden: Sequence[str]) -> str:
    """The text with stars in the place of each, and of the beginning of one that the text's end cuts off."""
    for one in hidden:
        text = text.replace(one, HIDDEN)
    end = max((_cut_off(text, one) for one in hidden), default=0)
    return text[: len(text) - end] + HIDDEN if end else text


def cleared(value: Any, hidden: Sequence[str]) -> Any:
    """A value without them at any depth."""
    if isinstance(value, dict):
        named = cast(dict[str, Any], value)
        return {without(name, hidden): cleared(each, hidden) for name, each in named.items()}
    if isinstance(value, list):
        return [cleared(each, hidden) for each in cast(Iterable[Any], value)]
    if isinstance(value, str):
        return without(value, hidden)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return HIDDEN if is_number and str(value) in hidden else value


def _cut_off(text: str, one: str) -> int:
    at = text.find(one[:SHORTEST], max(0, len(text) - len(one)))
    while at >= 0 and not one.startswith(text[at:]):
        at = text.find(one[:SHORTEST], at + 1)
    return len(text) - at if at >= 0 else 0


def _hidden(raw: Any, shown: Any) -> Iterator[Any]:
    """The values of a call that are not among what is shown of it."""
    if isinstance(raw, dict | list):
        if shown == HIDDEN and isinstance(raw, dict):
            yield from _revived(cast(dict[str, Any], raw))
        beside = dict(_members(shown))
        for place, each in _members(raw):
            yield from _hidden(each, beside.get(place, HIDDEN))
    elif shown == HIDDEN and not isinstance(raw, bool | None):
        yield raw


def _revived(found: dict[str, Any]) -> Iterator[Any]:
    """What a tag stands for, which a body writes otherwise than the store; of others, their names."""
    tag = found.get("$")
    if "$" not in found:
        yield from found
    elif isinstance(tag, str) and tag in SIMPLE:
        with suppress(Undecodable):  # its parts are looked for all the same
            yield revive(found)


def unpaired(found: dict[str, Any]) -> dict[str, Any]:
    """One with a "$" among its own names is stored as pairs; what another program stored stays as it is."""
    if found.get("$") != "dict":
        return found
    try:
        pairs: dict[Any, Any] = dict(found["v"])
    except (LookupError, TypeError, ValueError):
        return found
    return pairs if all(isinstance(name, str) for name in pairs) else found


def _members(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        named = unpaired(cast(dict[str, Any], value))
        tag = named.get("$") if named is value else None
        return [(name, each) for name, each in named.items() if tag is None or name not in ("$", "type")]
    if not isinstance(value, list):
        return []
    values: Iterable[Any] = cast(Iterable[Any], value)
    return list(enumerate(values))


def _forms(value: Any) -> Iterator[str]:
    if isinstance(value, bytes):
        yield repr(value)[2:-1]
        value = value.decode(errors="replace")
    text = str(value)
    yield text
    if not isinstance(value, str):
        yield repr(value)
    yield from (ascii(text)[1:-1], repr(text)[1:-1], quote(text, safe=""), quote(text), quote_plus(text))
    yield from (json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
