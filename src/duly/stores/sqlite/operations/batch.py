"""How a batch travels into one statement, and rows out of one: as JSON text.

A statement reads it with json_each, and makes it with json_group_array.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

# ensure_ascii=False: a lone surrogate must fail when it is bound, not be stored as text nobody can read.
_encode: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


_decode: Final = json.JSONDecoder().decode


def pack(values: Sequence[Any]) -> str:
    """One JSON array."""
    return _encode(values)


def unpack(text: str) -> list[Any]:
    """What one JSON array holds."""
    values: list[Any] = _decode(text)
    return values


def is_cut_short(batch: str) -> bool:
    """Whether SQLite may read less than was written: its JSON functions end a text at a zero character.

    An escaped zero inside a text that is JSON itself is suspected too, and loses only speed.
    """
    return "\\u0000" in batch
