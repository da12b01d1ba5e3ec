"""What a redis:// URL says: which server, how patient, which safeguards were waived.

Read once, when the store is made, so that a mistake in it is found where it is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from duly.durations import duration
from duly.errors import DefinitionError, UnknownStore

SCHEMES: Final = {
    "redis": "redis",
    "rediss": "rediss",
    "valkey": "redis",
    "valkeys": "rediss",
    "unix": "unix",
}
PATIENCE: Final = timedelta(seconds=10)
"""How long an answer may take: longer than a server stalls to fork, far shorter than a lease."""

_OURS: Final = ("allow_eviction", "waive_appendfsync", "timeout")
_NOT_THEIRS: Final = ("decode_responses", "encoding", "protocol")
"""Options of the driver that would change what the store reads."""
_YES: Final = ("1", "true", "yes")
_NO: Final = ("0", "false", "no", "")


@dataclass(frozen=True, slots=True)
class Address:
    """A URL, understood."""

    url: str
    shown: str
    """Without the password, for messages."""
    driver_url: str
    """What the driver is given: its own options only."""
    timeout: timedelta = PATIENCE
    allow_eviction: bool = False
    waive_appendfsync: bool = False


def parse(url: str) -> Address:
    """Understand redis://user:password@host:6379/0, rediss://… (TLS), valkey://… or unix:///path?db=0."""
    parts = urlsplit(url)
    scheme = SCHEMES.get(parts.scheme)
    if scheme is None:
        raise UnknownStore(masked(url))
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in _NOT_THEIRS:
        if name in options:
            raise DefinitionError(f"{masked(url)} sets {name!r}, which Duly decides itself. Leave it out.")
    theirs = urlencode({name: value for name, value in options.items() if name not in _OURS})
    return Address(
        url=url,
        shown=masked(url),
        driver_url=f"{scheme}://{parts.netloc}{parts.path}{'?' if theirs else ''}{theirs}",
        timeout=_timeout(url, options.get("timeout")),
        allow_eviction=_is_set(url, "allow_eviction", options),
        waive_appendfsync=_is_set(url, "waive_appendfsync", options),
    )


def masked(url: str) -> str:
    """The URL with stars for its password and without its options, which may hold one too."""
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    name, has_password, _ = user.partition(":")
    shown = f"{name}:***@{host}" if has_password else parts.netloc
    return f"{parts.scheme}://{shown}{parts.path}"


def _timeout(url: str, text: str | None) -> timedelta:
    if text is None:
        return PATIENCE
    return duration(text, what=f"timeout of {masked(url)}", allow_zero=False)


def _is_set(url: str, name: str, options: dict[str, str]) -> bool:
    value = options.get(name, "").lower()
    if value in _YES or value in _NO:
        return value in _YES
    raise DefinitionError(f"{masked(url)} sets {name}={value!r}; it takes 1 or 0.")
