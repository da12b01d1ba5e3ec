"""What a sqlite:/// URL says: which file, how durable, which journal.

Read once, when the store is made, so that a mistake in it is found where it is written.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar
from urllib.parse import parse_qsl, unquote

from duly.errors import DefinitionError, UnknownStore

SCHEME: Final = "sqlite://"
_NAMESPACE: Final = re.compile(r"[a-z][a-z0-9_]{0,30}")

Choice = TypeVar("Choice", bound=StrEnum)


class Durability(StrEnum):
    """What an acknowledged write survives. The values are SQLite's names for `synchronous`."""

    FULL = "full"
    """A power cut."""
    NORMAL = "normal"
    """The death of the process; a power cut may take the last commits."""


class Mode(StrEnum):
    """How SQLite keeps a transaction whole."""

    WAL = "wal"
    ROLLBACK = "rollback"


@dataclass(frozen=True, slots=True)
class Address:
    """A URL, understood."""

    url: str
    path: str
    """Absolute and free of links: the lock and the bells stand beside the real file."""
    durability: Durability = Durability.FULL
    wanted: Mode | None = None


def parse(url: str) -> Address:
    """Understand `sqlite:///file.db` (relative) or `sqlite:////var/file.db` and its options."""
    if not url.startswith(SCHEME):
        raise UnknownStore(url)
    place, _, query = url.removeprefix(SCHEME).partition("?")
    options = _options(url, query)
    return Address(
        url=url,
        path=os.path.realpath(_file(url, unquote(place))),
        durability=_choice(url, options, "durability", Durability) or Durability.FULL,
        wanted=_choice(url, options, "journal", Mode),
    )


def check_namespace(name: str) -> str:
    """A namespace becomes part of table names, so it must be a plain word."""
    if not _NAMESPACE.fullmatch(name) or name.startswith("sqlite"):
        raise DefinitionError(
            f"namespace={name!r} cannot begin a table's name. Use lowercase letters, digits and underscores, "
            "beginning with a letter, at most 31 in all, and not 'sqlite'."
        )
    return name


def _file(url: str, place: str) -> str:
    if ":memory:" in place:
        raise DefinitionError(
            f"{url!r} would give every connection a database of its own. Use memory:// instead."
        )
    if not place.startswith("/"):
        raise DefinitionError(
            f"{url!r} names a host, and SQLite has none. "
            f"Write sqlite:///{place or 'duly.db'} for a file here, sqlite:////… for an absolute path."
        )
    if place.endswith("/"):
        raise DefinitionError(
            f"{url!r} names no file. Write sqlite:///duly.db or sqlite:////var/lib/duly.db."
        )
    return place[1:]


def _options(url: str, query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(options.keys() - {"durability", "journal"})
    if unknown:
        raise DefinitionError(
            f"{url!r} has no option {unknown[0]!r}. The options are durability and journal."
        )
    return options


def _choice(url: str, options: dict[str, str], name: str, choices: type[Choice]) -> Choice | None:
    given = options.get(name)
    if given is None:
        return None
    try:
        return choices(given)
    except ValueError:
        allowed = " or ".join(choices)
        raise DefinitionError(f"{url!r} asks for {name}={given!r}. Use {allowed}.") from None
