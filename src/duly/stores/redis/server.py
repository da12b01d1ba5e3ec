"""What the server must be like, looked at once when the store is opened."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from redis import exceptions

from duly.errors import DefinitionError, SchemaMismatch, StoreError
from duly.job import Delivery
from duly.stores.redis.address import Address
from duly.stores.redis.faults import NEEDED

log = logging.getLogger("duly.redis")

LAYOUT: Final = 1
"""The number of the keys' layout this code reads and writes."""
SAFE: Final = "noeviction"


@dataclass(frozen=True, slots=True)
class Facts:
    """The server, as far as it lets itself be asked; None where it does not."""

    version: str
    policy: str | None
    appendfsync: str | None
    """always, everysec or no; "off" when there is no append-only file."""

    @property
    def is_durable(self) -> bool:
        """Whether an acknowledged write survives a power cut."""
        return self.appendfsync == "always"


def look(client: Any, address: Address) -> Facts:
    """Ask the server about itself."""
    about = client.info("server")
    memory = _info(client, "memory")
    return Facts(
        version=str(about.get("valkey_version") or about.get("redis_version", "0")),
        policy=_setting(client, "maxmemory-policy") or memory.get("maxmemory_policy"),
        appendfsync=_appendfsync(client),
    )


def check(facts: Facts, address: Address) -> None:
    """Refuse a server on which jobs would get lost."""
    _check_version(facts, address)
    if address.allow_eviction:
        return
    if facts.policy is None:
        raise StoreError(
            f"Redis at {address.shown} hides its eviction policy, and it may be one that deletes jobs. "
            "Make sure that maxmemory-policy is noeviction and add ?allow_eviction=1 to the URL."
        )
    if facts.policy != SAFE:
        raise StoreError(
            f"Redis at {address.shown} has maxmemory-policy {facts.policy!r}, which may delete jobs. "
            "Use a server of its own with CONFIG SET maxmemory-policy noeviction, "
            "or accept the loss with ?allow_eviction=1 in the URL."
        )


def warn(facts: Facts, address: Address) -> None:
    """Say once what was waived, where a person will look for the reason of a loss."""
    if facts.policy != SAFE:
        log.warning(
            "Redis at %s may evict jobs (maxmemory-policy %s): allowed by ?allow_eviction=1",
            address.shown,
            facts.policy or "unknown",
        )


def check_delivery(delivery: Delivery, facts: Facts, address: Address) -> None:
    """at_most_once needs its starts on disk: a start that was forgotten would be made again."""
    if delivery is not Delivery.AT_MOST_ONCE or facts.is_durable or address.waive_appendfsync:
        return
    found = "cannot be asked" if facts.appendfsync is None else f"is {facts.appendfsync!r}"
    raise DefinitionError(
        f"delivery='at_most_once' needs appendfsync 'always', and at {address.shown} it {found}: "
        "after a power cut a start could be forgotten and made again. "
        "CONFIG SET appendonly yes and appendfsync always, "
        "or accept that with ?waive_appendfsync=1 in the URL."
    )


def check_layout(layout: int, serves: int, address: Address) -> None:
    """Only code that is too old for the layout stops."""
    if serves > LAYOUT:
        raise SchemaMismatch(
            f"The keys at {address.shown} have layout {layout} and serve code of layout {serves} or newer; "
            f"this code knows {LAYOUT}. Update Duly here."
        )


def _check_version(facts: Facts, address: Address) -> None:
    numbers = tuple(int(part) for part in facts.version.split(".")[:2] if part.isdigit())
    if numbers < NEEDED:
        raise StoreError(
            f"Redis at {address.shown} is version {facts.version}; "
            f"Duly needs {NEEDED[0]}.{NEEDED[1]} or newer, or any Valkey."
        )


def _appendfsync(client: Any) -> str | None:
    if _setting(client, "appendonly") == "no":
        return "off"
    return _setting(client, "appendfsync")


def _setting(client: Any, name: str) -> str | None:
    try:
        found = client.config_get(name)
    except exceptions.ResponseError:  # many hosts hide CONFIG
        return None
    value = found.get(name) or found.get(name.encode())
    return value.decode() if isinstance(value, bytes) else value


def _info(client: Any, section: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = client.info(section)
    except exceptions.ResponseError:
        return {}
    return found
