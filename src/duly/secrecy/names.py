"""Which names say that their value is nobody's business, wherever they turn up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "***"
"""What stands where a secret stood."""
SECRETS: Final = (
    "password", "passwd", "passphrase", "pwd", "secret", "token", "apikey", "privatekey", "authorization",
    "credential",
)  # fmt: skip
"""Parts of names, without `-` and `_`."""


class Secrecy:
    """The names that are secrets anywhere, and those that an application adds."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._parts = frozenset(_plain(name) for name in (*SECRETS, *names))

    def covers(self, name: str) -> bool:
        """Whether a value of this name must not be seen."""
        plain = _plain(name)
        return any(part in plain for part in self._parts)


def _plain(name: str) -> str:
    """`API-Key`, `api_key` and `apiKey` are one name."""
    return name.lower().replace("-", "").replace("_", "")
