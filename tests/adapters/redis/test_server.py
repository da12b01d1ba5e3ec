"""A server on which jobs would get lost is refused when the store is opened, unless that is asked for."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.adapters.redis.conftest import OpenServer, OpenStore
from tests.contract.arrange import put_one, request
from tests.servers_redis import RedisServer

from duly import Duly
from duly.cli.checks import Level, journal
from duly.errors import DefinitionError, SchemaMismatch, StoreError
from duly.job import Decision, Delivery
from duly.stores.contract import WorkerCard
from duly.stores.redis import RedisStore
from duly.stores.redis.address import parse
from duly.stores.redis.moment import EPOCH
from duly.stores.redis.server import LAYOUT, Facts, check

EVICTING = ("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")


# --- eviction -----------------------------------------------------------------------------------


def test_a_policy_that_deletes_jobs_is_refused_with_the_remedy(
    open_server: OpenServer, open_store: OpenStore
) -> None:
    store = open_store(open_server(*EVICTING).url)

    with pytest.raises(StoreError, match=r"allkeys-lru.*noeviction.*allow_eviction=1"):
        store.open()


def test_a_policy_that_deletes_jobs_is_taken_when_that_is_asked_for(
    open_server: OpenServer, open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(f"{open_server(*EVICTING).url}?allow_eviction=1")

    store.open()

    assert "may evict jobs (maxmemory-policy allkeys-lru)" in caplog.text


def test_a_host_that_hides_config_still_tells_its_policy(
    open_server: OpenServer, open_store: OpenStore
) -> None:
    store = open_store(open_server(*EVICTING, "--rename-command", "CONFIG", "").url)

    with pytest.raises(StoreError, match="allkeys-lru"):
        store.open()


def test_a_host_that_hides_config_and_keeps_everything_is_taken(
    open_server: OpenServer, open_store: OpenStore
) -> None:
    store = open_store(open_server("--rename-command", "CONFIG", "").url)

    store.open()

    assert store.describe()["maxmemory-policy"] == "noeviction"


def test_a_host_that_hides_everything_is_taken_only_when_that_is_asked_for() -> None:
    facts = Facts(version="7.2.0", policy=None, appendfsync=None)

    with pytest.raises(StoreError, match=r"hides its eviction policy.*allow_eviction=1"):
        check(facts, parse("redis://host"))
    check(facts, parse("redis://host?allow_eviction=1"))


# --- durability ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), "off"),
        (("--appendonly", "yes"), "everysec"),
        (("--appendonly", "yes", "--appendfsync", "no"), "no"),
    ],
)
def test_at_most_once_needs_every_write_on_disk(
    open_server: OpenServer, options: tuple[str, ...], found: str
) -> None:
    store = RedisStore(open_server(*options).url)

    with pytest.raises(DefinitionError, match=f"appendfsync 'always'.*'{found}'.*waive_appendfsync=1"):
        store.check_delivery(Delivery.AT_MOST_ONCE)
    with pytest.raises(DefinitionError, match="at_most_once"):
        put_one(store, request(delivery=Delivery.AT_MOST_ONCE))

    store.check_delivery(Delivery.AT_LEAST_ONCE)
    put_one(store, request())
    store.close()


def test_at_most_once_is_taken_where_every_write_is_on_disk(open_server: OpenServer) -> None:
    store = RedisStore(open_server("--appendonly", "yes", "--appendfsync", "always").url)

    placed = put_one(store, request(delivery=Delivery.AT_MOST_ONCE))
    store.close()

    assert placed.decision is Decision.CREATED


def test_at_most_once_is_taken_when_the_loss_was_waived(server: RedisServer, open_store: OpenStore) -> None:
    placed = put_one(open_store(server.url), request(delivery=Delivery.AT_MOST_ONCE))

    assert placed.decision is Decision.CREATED


@pytest.mark.parametrize(
    ("options", "level", "words"),
    [
        ((), Level.WARN, "off: without an append-only file a restart costs"),
        (("--appendonly", "yes"), Level.OK, "everysec: a power cut may cost the writes of the last second"),
        (("--appendonly", "yes", "--appendfsync", "always"), Level.OK, "always: every write is on disk"),
    ],
)
def test_the_doctor_says_what_the_setting_means(
    open_server: OpenServer, options: tuple[str, ...], level: Level, words: str
) -> None:
    app = Duly(open_server(*options).url)

    found = journal(app)

    app.close()
    assert found.level is level
    assert words in found.found
    assert bool(found.remedy) == (level is Level.WARN)


# --- versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["5.0.14", "6.0.16", "6.1.99"])
def test_a_server_that_is_too_old_is_refused(version: str) -> None:
    with pytest.raises(StoreError, match=f"{version}.*6.2"):
        check(Facts(version, "noeviction", "off"), parse("redis://host"))


@pytest.mark.parametrize("version", ["6.2.0", "7.0.15", "7.4.1", "8.0.0"])
def test_a_server_that_is_new_enough_is_taken(version: str) -> None:
    check(Facts(version, "noeviction", "off"), parse("redis://host"))


def test_keys_laid_out_for_newer_code_only_stop_this_code(server: RedisServer, open_store: OpenStore) -> None:
    running = open_store(server.url)
    running.open()
    with server.client() as client:
        client.hset("{duly}:meta", mapping={"layout": LAYOUT + 2, "serves": LAYOUT + 1})

    assert not is_at_home(running)
    with pytest.raises(SchemaMismatch, match="Update Duly"):
        running.check_schema()
    with pytest.raises(SchemaMismatch, match="Update Duly"):
        open_store(server.url).open()


def test_keys_laid_out_by_newer_code_that_still_serve_this_code_are_taken(
    server: RedisServer, open_store: OpenStore
) -> None:
    with server.client() as client:
        client.hset("{duly}:meta", mapping={"layout": LAYOUT + 1, "serves": LAYOUT})
    store = open_store(server.url)

    store.open()
    store.check_schema()
    assert is_at_home(store)


def test_a_beat_is_not_at_home_in_a_store_that_is_being_left(store: RedisStore) -> None:
    assert is_at_home(store)

    store.run(store.seal("move", "redis://elsewhere"))

    assert not is_at_home(store)


def is_at_home(store: RedisStore) -> bool:
    """What one beat learns, without asking apart."""
    card = WorkerCard("worker", "worker", "host", 1, EPOCH)
    return store.run(store.renew(card, [], timedelta(seconds=30))).is_at_home


# --- what a person is told ----------------------------------------------------------------------


def test_describe_tells_what_matters_without_the_password(
    open_server: OpenServer, open_store: OpenStore
) -> None:
    server = open_server("--requirepass", "secret")
    store = open_store(server.url.replace("unix://", "unix://:secret@"))

    told = store.describe()

    assert (told["version"], told["appendfsync"], told["namespace"]) == (told["version"], "off", "duly")
    assert "secret" not in str(told)
