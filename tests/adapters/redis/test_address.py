"""A URL is understood where it is written, and its password is never shown."""

from __future__ import annotations

from datetime import timedelta

import pytest

from duly.errors import DefinitionError, UnknownStore
from duly.stores.redis import RedisStore
from duly.stores.redis.address import PATIENCE, masked, parse


@pytest.mark.parametrize(
    ("url", "for_the_driver"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("rediss://user:pass@host/3", "rediss://user:pass@host/3"),
        ("valkey://host", "redis://host"),
        ("valkeys://host", "rediss://host"),
        ("unix:///run/redis.sock?db=2", "unix:///run/redis.sock?db=2"),
        ("redis://host/1?allow_eviction=1&ssl_cert_reqs=none", "redis://host/1?ssl_cert_reqs=none"),
    ],
)
def test_the_driver_gets_its_own_options_only(url: str, for_the_driver: str) -> None:
    assert parse(url).driver_url == for_the_driver


def test_without_options_every_safeguard_stands() -> None:
    address = parse("redis://host")

    assert (address.allow_eviction, address.waive_appendfsync, address.timeout) == (False, False, PATIENCE)


def test_safeguards_are_waived_by_name() -> None:
    address = parse("redis://host?allow_eviction=1&waive_appendfsync=yes&timeout=30s")

    assert (address.allow_eviction, address.waive_appendfsync) == (True, True)
    assert address.timeout == timedelta(seconds=30)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@host:6379/0?password=secret",
        "redis://user:secret@host",
        "unix://user:secret@/run/redis.sock",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    assert "secret" not in masked(url)
    assert "secret" not in parse(url).shown


@pytest.mark.parametrize(
    "url",
    [
        "redis://u:secret@host?allow_eviction=perhaps",
        "redis://u:secret@host?timeout=soon",
        "redis://u:secret@host?decode_responses=1",
        "redis://u:secret@host?protocol=3",
    ],
)
def test_a_mistake_in_an_option_is_named_without_the_password(url: str) -> None:
    with pytest.raises(DefinitionError) as refusal:
        parse(url)

    assert "secret" not in str(refusal.value)
    assert "host" in str(refusal.value)


def test_another_scheme_is_no_redis() -> None:
    with pytest.raises(UnknownStore):
        parse("http://host")


@pytest.mark.parametrize("url", ["redis://host:port", "redis://host/0?socket_timeout=soon"])
def test_what_the_driver_cannot_read_is_named(url: str) -> None:
    with pytest.raises(DefinitionError, match="cannot be understood"):
        RedisStore(url)


@pytest.mark.parametrize("namespace", ["", "a}b", "a:b", "ä", "a b"])
def test_a_namespace_must_fit_into_a_hash_tag(namespace: str) -> None:
    with pytest.raises(DefinitionError, match="namespace"):
        RedisStore("redis://host", namespace=namespace)
