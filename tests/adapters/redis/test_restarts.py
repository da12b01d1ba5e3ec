"""A server that goes away and comes back: what it acknowledged is there, and what it forgot harms nobody."""

from __future__ import annotations

import shutil
import signal
from datetime import timedelta
from pathlib import Path

import pytest
from tests.adapters.redis.conftest import OpenServer, OpenStore
from tests.contract.arrange import (
    ask,
    beat,
    begin,
    card,
    claim,
    claim_all,
    claim_one,
    find,
    look,
    put,
    put_one,
    request,
    settle,
    start,
    state,
)
from tests.servers_redis import RedisServer

from duly.errors import StoreUnavailable
from duly.job import State
from duly.lifecycle import Done, Fail, Release, Settled
from duly.stores.redis import RedisStore

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


def test_a_restart_loses_nothing_and_the_same_store_goes_on(
    open_server: OpenServer, open_store: OpenStore
) -> None:
    server = open_server(*DURABLE)
    store = open_store(server.url)
    put(store, request(id="a"), request("k", id="b", delay=timedelta(hours=1)))
    running = claim_one(store)

    for _ in range(3):
        server.restart(signal.SIGKILL)

    assert beat(store, running).lost == frozenset()
    assert settle(store, running, Done("42")) is Settled.SETTLED
    assert {job.id: job.state for job in find(store)} == {"a": State.DONE, "b": State.WAITING}


def test_while_the_server_is_down_every_call_fails_quickly_and_then_works(
    open_server: OpenServer, open_store: OpenStore
) -> None:
    server = open_server(*DURABLE)
    store = open_store(server.url)
    lent = start(store, request(id="a"))

    server.stop()
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            settle(store, lent)
    server.start()

    assert settle(store, lent) is Settled.SETTLED
    assert state(store, "a") is State.DONE


def test_connections_killed_between_two_calls_are_replaced_unnoticed(
    server: RedisServer, open_store: OpenStore
) -> None:
    store = open_store(server.url)
    put_one(store, request())
    with server.client() as client:
        for _ in range(5):
            client.client_kill_filter(_type="normal", skipme=True)
            put_one(store, request())

    assert len(claim_all(store)) == 6


def test_the_bell_rings_again_after_a_restart(server: RedisServer, open_store: OpenStore) -> None:
    store, other = open_store(server.url), open_store(server.url)
    bell = store.doorbell()
    server.restart()
    assert bell.wait(timedelta(seconds=20))  # the line stands again: something may have been missed

    put_one(other, request())

    assert bell.wait(timedelta(seconds=20))
    bell.close()


# --- a store that lost its last writes ------------------------------------------------------------


@pytest.fixture
def forgetful(open_server: OpenServer) -> RedisServer:
    return open_server(*DURABLE)


def forget_since(server: RedisServer, backup: Path) -> None:
    """Bring the server back with the file it had earlier."""
    server.stop(signal.SIGKILL)
    shutil.copy(backup, server.folder / "appendonly.aof")
    server.start()


def remember(server: RedisServer) -> Path:
    return Path(shutil.copy(server.folder / "appendonly.aof", server.folder / "backup.aof"))


def test_a_claim_the_store_forgot_cannot_settle_what_another_worker_claimed(
    forgetful: RedisServer, open_store: OpenStore
) -> None:
    store = open_store(forgetful.url)
    put_one(store, request(id="a"))
    backup = remember(forgetful)
    forgotten = claim_one(store, "w1")
    forget_since(forgetful, backup)

    fresh = claim_one(store, "w2")

    assert (forgotten.id, forgotten.epoch) == (fresh.id, fresh.epoch)
    assert settle(store, forgotten, Fail("boom")) is Settled.LOST
    assert not begin(store, forgotten)
    assert settle(store, fresh) is Settled.SETTLED
    assert state(store, "a") is State.DONE


def test_an_end_the_store_forgot_is_settled_again_by_the_run_that_made_it(
    forgetful: RedisServer, open_store: OpenStore
) -> None:
    store = open_store(forgetful.url)
    lent = start(store, request(id="a"))
    backup = remember(forgetful)
    settle(store, lent, Done("42"))
    forget_since(forgetful, backup)

    assert state(store, "a") is State.RUNNING
    assert settle(store, lent, Done("42")) is Settled.SETTLED
    assert look(store, "a").result == "42"


def test_a_worker_the_store_forgot_finds_its_claims_lost_and_its_jobs_lent_again(
    forgetful: RedisServer, open_store: OpenStore
) -> None:
    store = open_store(forgetful.url)
    put(store, request(id="a"), request("k", id="b"))
    backup = remember(forgetful)
    held = claim_all(store, "w1")
    forget_since(forgetful, backup)

    lost = beat(store, *held, worker="w1").lost

    assert lost == {one.fence for one in held}
    assert [one.id for one in claim_all(store, "w1")] == ["a", "b"]


def test_a_release_the_store_forgot_is_found_by_disowning(
    forgetful: RedisServer, open_store: OpenStore
) -> None:
    store = open_store(forgetful.url)
    lent = start(store, request(id="a"))
    backup = remember(forgetful)
    settle(store, lent, Release())
    forget_since(forgetful, backup)

    assert store.run(store.disown("w1", [])) == 1
    assert claim_one(store, "w2").id == "a"


# --- keys deleted by hand -------------------------------------------------------------------------


def busy(store: RedisStore) -> None:
    """One job of each sort, so that every key exists."""
    put(store, request(id="done", arguments="[[1],{}]"), request("r", id="running"), request("s", id="error"))
    done, running, error = claim_all(store)
    store.run(store.renew(card(), [running.fence], timedelta(seconds=30)))
    store.run(store.report({running.fence: "1 %"}))
    settle(store, done, Done("1", timedelta(days=1)))
    settle(store, error, Release(note="a"))
    settle(store, claim(store, ask(limit=1)).claims[0], Fail("boom"))
    put(
        store,
        request("r", id="parked"),
        request(id="late", expires_after=timedelta(days=1), delay=timedelta(1)),
    )
    put_one(store, request(id="ready"))
    store.run(store.record("kind", "name", "text"))
    store.run(store.grip("lock", "me", timedelta(minutes=1)))


@pytest.mark.parametrize(
    "name",
    [
        "state",
        "body",
        "all",
        "live",
        "lanes",
        "ready:0:4:senddefault",
        "held:w1",
        "holders",
        "workers",
        "serial:send|r",
        "key:r",
        "tally",
        "forget",
        "failed",
        "expiries",
        "expiry:4:senddefault",
        "error",
        "result",
        "results",
        "progress",
        "history:error",
        "locks",
        "grips",
        "meta",
    ],
)
def test_whichever_key_somebody_deletes_the_engine_goes_on(
    server: RedisServer, open_store: OpenStore, name: str
) -> None:
    store = open_store(server.url)
    busy(store)
    with server.client() as client:
        assert client.delete(f"{{duly}}:{name}") == 1, "the key this test deletes exists"

    for worker in ("w1", "w2"):
        for one in claim_all(store, worker):
            settle(store, one, worker=worker)
        beat(store, worker=worker)
    store.run(store.leave("w1"))
    store.run(store.prune(100))
    store.run(store.census())
    find(store)

    put_one(store, request(id="new"))
    assert "new" in [one.id for one in claim_all(store, "w3")]


def test_after_everything_was_deleted_the_engine_starts_afresh(
    server: RedisServer, open_store: OpenStore
) -> None:
    store = open_store(server.url)
    busy(store)
    lent = claim_all(store)
    with server.client() as client:
        client.flushall()

    assert [settle(store, one) for one in lent] == [Settled.LOST] * len(lent)
    put_one(store, request(id="new"))
    assert [one.id for one in claim_all(store)] == ["new"]
