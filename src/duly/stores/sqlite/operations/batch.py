"""How a batch travels into one statement: as JSON text that the statement reads with json_each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

# ensure_ascii=False: a lone surrogate must fail when it is bound, not be stored as text nobody can read.
_encode: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def pack(values: Sequence[Any]) -> str:
    """One JSON array."""
    return _encode(values)


def is_cut_short(batch: str) -> bool:
    """Whether SQLite may read less than was written: its JSON functions end a text at a zero character.

    An escaped zero inside a text that is JSON itself is suspected too, and loses only speed.
    """
    return "\\u0000" in batch
