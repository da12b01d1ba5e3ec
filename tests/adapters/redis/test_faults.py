"""Whatever is wrong with the server, the caller hears one sentence that names it and the remedy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from redis import exceptions
from tests.adapters.redis.conftest import OpenServer, OpenStore
from tests.contract.arrange import (
    LEASE,
    ask,
    beat,
    claim_all,
    find,
    look,
    put,
    put_one,
    request,
    settle,
    state,
)
from tests.servers_redis import RedisServer

from duly.errors import StoreError, StoreUnavailable, WrongConnection
from duly.job import State
from duly.lifecycle import Done, Settled
from duly.stores.contract import Settlement
from duly.stores.redis import RedisStore
from duly.stores.redis.faults import explained

# --- not reached --------------------------------------------------------------------------------


def test_a_server_that_is_not_there_is_named_at_once(tmp_path: Path, open_store: OpenStore) -> None:
    store = open_store(f"unix://{tmp_path}/nobody.sock")
    began = time.monotonic()

    with pytest.raises(StoreUnavailable, match=r"nobody.sock cannot be reached.*Start the server"):
        store.open()

    assert time.monotonic() - began < 30


def test_a_port_nobody_listens_on_is_named_without_the_password(open_store: OpenStore) -> None:
    store = open_store("redis://user:secret@127.0.0.1:1/0")

    with pytest.raises(StoreUnavailable, match=r"user:\*\*\*@127.0.0.1:1/0 cannot be reached") as failure:
        store.open()

    assert "secret" not in str(failure.value)


def test_a_server_that_does_not_answer_is_not_waited_for_longer_than_allowed(
    server: RedisServer, open_store: OpenStore
) -> None:
    store = open_store(f"{server.url}?timeout=2s")
    store.open()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable, match=r"did not answer in time.*timeout="):
            put_one(store, request())
    finally:
        os.kill(server.pid, signal.SIGCONT)
    put_one(store, request())


# --- not allowed --------------------------------------------------------------------------------


@pytest.mark.parametrize("login", ["", ":open-sesame@", "somebody:open-sesame@"])
def test_a_wrong_password_is_named_and_not_shown(
    open_server: OpenServer, open_store: OpenStore, login: str
) -> None:
    server = open_server("--requirepass", "secret")
    store = open_store(server.url.replace("unix://", f"unix://{login}"))

    with pytest.raises(StoreUnavailable, match=r"password.*redis://") as failure:
        store.open()

    assert "open-sesame" not in str(failure.value)


def test_a_user_without_rights_is_told_which_to_ask_for(server: RedisServer, open_store: OpenStore) -> None:
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "reader", "on", ">pw", "~*", "&*", "+@read", "+info")
    store = open_store(server.url.replace("unix://", "unix://reader:pw@"))

    with pytest.raises(StoreUnavailable, match=r"does not allow this user.*ACL SETUSER"):
        store.open()


def test_the_rights_that_are_asked_for_are_enough(server: RedisServer, open_store: OpenStore) -> None:
    with server.client() as client:
        rights = ["resetchannels", "~{duly}:*", "&{duly}:*", "+@all", "-@admin"]
        client.execute_command("ACL", "SETUSER", "engine", "on", ">pw", *rights)
    store = open_store(server.url.replace("unix://", "unix://engine:pw@"))

    lent = [put_one(store, request()), *claim_all(store)]
    bell = store.doorbell()
    store.ring()

    assert len(lent) == 2
    assert bell.wait(LEASE)


# --- not ours -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["meta", "state", "all", "lanes"])
def test_data_of_another_application_is_not_touched(
    server: RedisServer, open_store: OpenStore, name: str
) -> None:
    with server.client() as client:
        client.set(f"{{duly}}:{name}", "theirs")

        with pytest.raises(StoreError, match=r"another application.*namespace="):
            put_one(open_store(server.url), request())

        assert client.get(f"{{duly}}:{name}") == "theirs"
    put_one(open_store(server.url, namespace="other"), request())


def test_the_callers_connection_is_refused_and_the_outbox_named(store: RedisStore) -> None:
    with pytest.raises(WrongConnection, match=r'outbox="postgresql://'):
        store.run_on(object(), store.offer([request()]))


async def test_the_callers_connection_is_refused_to_async_callers_too(store: RedisStore) -> None:
    with pytest.raises(WrongConnection, match=r'outbox="postgresql://'):
        await store.arun_on(object(), store.offer([request()]))


# --- not now ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (exceptions.BusyLoadingError("Redis is loading the dataset in memory"), "is loading its data"),
        (exceptions.ResponseError("BUSY Redis is busy running a script."), "SCRIPT KILL"),
        (exceptions.ReadOnlyError("You can't write against a read only replica."), "Point the URL"),
        (exceptions.ResponseError("MASTERDOWN Link with MASTER is down"), "lost its primary"),
        (exceptions.ResponseError("MISCONF Redis is configured to save RDB snapshots"), "its disk"),
        (exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."), "replicas"),
        (exceptions.ResponseError("MOVED 3999 127.0.0.1:6381"), "node of a cluster"),
        (exceptions.ResponseError("CLUSTERDOWN The cluster is down"), "cluster that is down"),
        (
            exceptions.ResponseError(
                "Error running script (call to f_1): @user_script:1: -READONLY You can't write against a "
                "read only replica."
            ),
            "read-only replica",
        ),
        (
            exceptions.ResponseError("OOM command not allowed when used memory > 'maxmemory'. script: 1"),
            "no memory left",
        ),
    ],
    ids=lambda value: str(value)[:12],
)
def test_a_passing_trouble_is_one_to_wait_for(error: Exception, words: str) -> None:
    told = explained(error, "redis://host", "put")

    assert isinstance(told, StoreUnavailable)
    assert words in str(told)
    assert "redis://host" in str(told)


def test_an_error_nobody_expected_is_not_hidden() -> None:
    told = explained(exceptions.ResponseError("ERR something new"), "redis://host", "put")

    assert not isinstance(told, StoreUnavailable)
    assert isinstance(told, StoreError)
    assert "something new" in str(told)


def test_a_replica_is_left_when_it_is_promoted(server: RedisServer, open_store: OpenStore) -> None:
    store = open_store(server.url)
    store.open()
    with server.client() as client:
        client.replicaof("127.0.0.1", "1")
        with pytest.raises(StoreUnavailable, match="replica"):
            put_one(store, request())
        client.replicaof("NO", "ONE")

    put_one(store, request())


def test_a_script_of_somebody_else_is_waited_out(server: RedisServer, open_store: OpenStore) -> None:
    store = open_store(server.url)
    store.open()
    with server.client() as client, server.client() as other:
        client.config_set("lua-time-limit", 1)
        endless = threading.Thread(target=run_for_ever, args=(other,))
        endless.start()
        await_busy(client)
        with pytest.raises(StoreUnavailable, match="busy with a script"):
            put_one(store, request())
        client.script_kill()
        endless.join()

    put_one(store, request())


def run_for_ever(client: Any) -> None:
    with pytest.raises(exceptions.ResponseError, match="killed"):
        client.eval("while true do end", 0)


def await_busy(client: Any) -> None:
    for _ in range(1000):
        try:
            client.ping()
        except exceptions.ResponseError:
            return
    raise AssertionError("the server never got busy")


# --- no memory ----------------------------------------------------------------------------------


@pytest.fixture
def starved(server: RedisServer, open_store: OpenStore) -> RedisStore:
    """A store with two jobs waiting and one lent, whose server has no byte left."""
    store = open_store(server.url)
    put(store, request(id="a"), request("k", id="b"), request("k2", id="c"))
    with server.client() as client:
        client.config_set("maxmemory", "1mb")
        client.config_set("maxmemory", "1")
    return store


def test_without_memory_no_job_is_taken(starved: RedisStore) -> None:
    with pytest.raises(StoreUnavailable, match="no memory left"):
        put_one(starved, request())


def test_without_memory_jobs_are_still_lent_renewed_settled_and_pruned(starved: RedisStore) -> None:
    lent = claim_all(starved, limit=2)
    beat(starved, *lent)
    settled = [settle(starved, one) for one in lent]
    turned = starved.run(starved.turn([], ask()))
    last = Settlement(turned.claimed.claims[0].fence, Done("x" * 1000))

    assert settled == [Settled.SETTLED] * 2
    assert starved.run(starved.settle("w1", [last])) == [Settled.SETTLED]
    assert starved.run(starved.prune(10)) == 0
    assert {state(starved, one) for one in "abc"} == {State.DONE}


def test_without_memory_a_put_that_was_refused_left_nothing_behind(starved: RedisStore) -> None:
    with pytest.raises(StoreUnavailable):
        put(starved, request(id="new"), request("k", id="merged", arguments="[[9],{}]"))

    assert look(starved, "b").arguments == "[[],{}]"
    assert [job.id for job in find(starved)] == ["c", "b", "a"]


# --- no driver ----------------------------------------------------------------------------------


def test_without_the_driver_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['redis'] = None\nfrom duly import Duly\nDuly('redis://localhost').store"
    )

    failed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert 'pip install "duly[redis]"' in failed.stderr.splitlines()[-1]


def test_more_threads_than_connections_are_told_so() -> None:
    told = explained(exceptions.ConnectionError("No connection available."), "redis://host", "put")

    assert isinstance(told, StoreUnavailable)
    assert "All connections" in str(told)
