"""Which statements may write, by their words: those before which a transaction must have begun.

In doubt a statement writes: beginning too early keeps others waiting, beginning too late parts an effect from
its completion.
"""

from __future__ import annotations

import re
from typing import Final

_FIRST: Final = re.compile(
    r"(?:[\s;]|--[^\n]*|/\*.*?(?:\*/|\Z))*([a-zA-Z]*)(\s+to\b)?", re.DOTALL | re.IGNORECASE
)
"""The first word, behind any comments, and whether it goes on to speak of a savepoint."""
_READING: Final = frozenset(
    {"", "select", "values", "explain", "pragma", "attach", "detach", "begin", "commit", "end", "rollback"}
)
"""Those that end a transaction are refused elsewhere; beginning one for them would be in vain."""
_CHANGING: Final = re.compile(r"\b(insert|update|delete|replace)\b", re.IGNORECASE)


_ENDING: Final = frozenset({"commit", "end", "rollback"})


def may_write(sql: str) -> bool:
    """Whether this could change the file."""
    first, _ = _opening(sql)
    if first == "with":  # a word in a text or a comment counts too: better early than late
        return _CHANGING.search(sql) is not None
    return first not in _READING


def ends_transaction(sql: str) -> bool:
    """Whether this commits or rolls back, and more than a savepoint."""
    first, is_about_savepoint = _opening(sql)
    return first in _ENDING and not is_about_savepoint


def _opening(sql: str) -> tuple[str, bool]:
    found = _FIRST.match(sql)
    return ("", False) if found is None else (found[1].lower(), found[2] is not None)
