"""Store URLs as people may see them: a password never leaves the settings."""

from __future__ import annotations

import re
from typing import Final

_SECRETS: Final = re.compile(r"(?<=://)([^\s:/@]*):[^\s/]+@")
_SECRET_OPTIONS: Final = re.compile(
    r"((?:^|[?&\s;'\"])(?:password|passwd|token|secret)\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^&\s'\"]+)",
    re.IGNORECASE,
)
"""As an option of a URL, or in libpq's list of words and values."""


def masked(text: str) -> str:
    """Stars for passwords in URLs and connection strings, wherever in a text they turn up."""
    return _SECRET_OPTIONS.sub(r"\1***", _SECRETS.sub(r"\1:***@", text))
