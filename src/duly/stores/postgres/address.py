"""What a postgresql:// URL says: where the server is, how many connections to hold.

Read once, when the store is made, so that a mistake in it is found where it is written. The password leaves
this file only towards the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from duly.errors import DefinitionError, UnknownStore
from duly.urls import masked

SCHEMES: Final = ("postgresql", "postgres")
LONGEST_NAME: Final = 63
"""Bytes of an identifier; PostgreSQL cuts the rest off, and two schemas would become one."""
CONNECTIONS: Final = 5
PATIENCE: Final = timedelta(seconds=10)

DEFAULTS: Final = {
    "application_name": "duly",
    "connect_timeout": "5",
    # A server that vanished without a word is noticed within seconds, by whoever waits for it.
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


@dataclass(frozen=True, slots=True)
class Address:
    """A URL, understood."""

    conninfo: str
    shown: str
    """The URL as it may be shown."""
    password: str | None
    connections: int = CONNECTIONS
    is_direct: bool = True
    """False where a pooler stands in between that would not be noticed."""

    def masked(self, text: str) -> str:
        """A message of the driver without the password."""
        return text if not self.password else text.replace(self.password, "***")


def parse(url: str) -> Address:
    """Understand `postgresql://user:password@host/database` and its options."""
    parts = urlsplit(url)
    if parts.scheme.partition("+")[0] not in SCHEMES:
        raise UnknownStore(url)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    connections = _number(options.pop("connections", str(CONNECTIONS)), url)
    is_direct = _choice(options.pop("pooler", "auto"), url)
    query = urlencode({**DEFAULTS, **options}, quote_via=quote)
    return Address(
        conninfo=f"postgresql://{parts.netloc}{parts.path}?{query}",
        shown=masked(url),
        password=parts.password or options.get("password"),
        connections=connections,
        is_direct=is_direct,
    )


def check_namespace(name: str) -> str:
    """Any name will do for a schema, as long as PostgreSQL keeps all of it."""
    if not name or "\0" in name or len(name.encode()) > LONGEST_NAME:
        raise DefinitionError(
            f"namespace={name!r} cannot name a schema. Use 1 to {LONGEST_NAME} bytes, none of them zero."
        )
    if name.startswith("pg_") or name == "information_schema":
        raise DefinitionError(f"namespace={name!r} is PostgreSQL's own. Use another name, such as 'duly'.")
    return name


def _number(given: str, url: str) -> int:
    if not given.isdecimal() or int(given) < 2:
        raise DefinitionError(
            f"{masked(url)!r} asks for connections={given!r}. Use a number of at least 2: "
            "a heartbeat must not wait for a long claim."
        )
    return int(given)


def _choice(given: str, url: str) -> bool:
    if given not in ("auto", "yes"):
        raise DefinitionError(f"{masked(url)!r} asks for pooler={given!r}. Use auto or yes.")
    return given == "auto"
