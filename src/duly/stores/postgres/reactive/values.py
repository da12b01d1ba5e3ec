"""Values as PostgreSQL writes them, turned into what Python has for them.

Every type has a text, which never fails to be read; only what people look at is turned into more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("\\x"))


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "bool": lambda text: text in ("t", "true"),
    "int2": int,
    "int4": int,
    "int8": int,
    "oid": int,
    "float4": float,
    "float8": float,
    "numeric": Decimal,
    "uuid": UUID,
    "bytea": _bytes,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamptz": datetime.fromisoformat,
    "json": json.loads,
    "jsonb": json.loads,
}


def read(kind: str, text: str | None) -> Any:
    """A value for people; its text where Python has nothing for it, such as a date at infinity."""
    reader = _READERS.get(kind)
    if text is None or reader is None:
        return text
    try:
        return reader(text)
    except (ValueError, ArithmeticError):
        return text
