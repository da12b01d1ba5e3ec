"""How a batch travels into one statement: as the text of an array, made in one sweep.

The driver would adapt element by element, which for a batch of five hundred costs more than the rest of
the call. Text is escaped as a whole, with the zero character as the border between elements: PostgreSQL's
text cannot hold one, and `stored` has replaced those of the users.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

_MARK: Final = "\uffff"


def integers(values: Iterable[int | None]) -> str:
    """An array of numbers; None becomes null."""
    return "{" + ",".join(map(str, values)).replace("None", "null") + "}"


def booleans(values: Iterable[bool]) -> str:
    """An array of truth values."""
    return "{" + ",".join(["t" if value else "f" for value in values]) + "}"


def words(values: Sequence[str | None]) -> str:
    """An array of texts; None becomes null."""
    if not values:
        return "{}"
    if None in values:
        return "{" + ",".join([_quoted(value) for value in values]) + "}"
    joined = "\0".join(cast(Sequence[str], values))
    return '{"' + joined.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","') + '"}'


def _quoted(value: str | None) -> str:
    return "null" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def stored(text: str) -> str:
    """Text as PostgreSQL can hold it: its zero characters, and the mark that says so, are spelled out."""
    if "\0" in text or _MARK in text:
        return text.replace(_MARK, _MARK + "1").replace("\0", _MARK + "0")
    return text


def all_stored(texts: Sequence[str]) -> Sequence[str]:
    """Texts as PostgreSQL can hold them; most batches have nothing to spell out, which one look tells."""
    together = "".join(texts)
    return [stored(text) for text in texts] if "\0" in together or _MARK in together else texts


def stored_or_none(text: str | None) -> str | None:
    """The same, where there may be none."""
    return None if text is None else stored(text)


def restored(text: str) -> str:
    """Text as it was given."""
    if _MARK in text:
        return text.replace(_MARK + "0", "\0").replace(_MARK + "1", _MARK)
    return text


def restored_or_none(text: str | None) -> str | None:
    """The same, where there may be none."""
    return None if text is None else restored(text)


def all_restored(texts: Sequence[str | None]) -> Sequence[str | None]:
    """A column of texts as they were given; most have no mark in any of them, which one look tells."""
    if _MARK in "".join(filter(None, texts)):
        return [restored_or_none(text) for text in texts]
    return texts
