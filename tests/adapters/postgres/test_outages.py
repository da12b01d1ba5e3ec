"""Servers that die, restart, cut the wire or say nothing: nothing is lost or doubled, nobody hangs."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest
from tests.adapters.postgres.arrange import KEY, claim, eventually, find, put, request, settle
from tests.adapters.postgres.proxy import Proxy
from tests.servers import PostgresServer, postgres_url

from duly.errors import StoreUnavailable
from duly.job import Decision, State
from duly.lifecycle import Settled
from duly.stores.contract import Selection
from duly.stores.drive import Operation, Row, Steps
from duly.stores.postgres import PostgresStore

T = TypeVar("T")


def terminate(url: str) -> None:
    """End every connection of the stores under test."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where application_name = 'duly-outage' and pid <> pg_backend_pid()"
        )


def named(url: str) -> str:
    return f"{url}&application_name=duly-outage"


_numbers = count(1)


@pytest.fixture
def namespace() -> str:
    return f"outage_{next(_numbers)}"


@pytest.fixture
def own_store(own_server: PostgresServer, namespace: str) -> Iterator[PostgresStore]:
    made = PostgresStore(named(own_server.url), namespace=namespace)
    made.open()
    yield made
    made.close()


@pytest.fixture
def proxy(own_server: PostgresServer) -> Iterator[Proxy]:
    folder = Path(tempfile.mkdtemp(prefix="duly-proxy-"))
    made = Proxy(folder, own_server.folder)
    yield made
    made.close()
    shutil.rmtree(folder)


@pytest.fixture
def cut_off(own_server: PostgresServer, proxy: Proxy, namespace: str) -> Iterator[PostgresStore]:
    """A store behind the proxy."""
    made = PostgresStore(behind(proxy, own_server), namespace=namespace, patience=timedelta(seconds=30))
    made.open()
    yield made
    made.close()


@pytest.fixture
def impatient(own_server: PostgresServer, proxy: Proxy, namespace: str) -> Iterator[PostgresStore]:
    """Another, which does not wait for long."""
    made = PostgresStore(behind(proxy, own_server), namespace=namespace, patience=timedelta(seconds=2))
    made.open()
    yield made
    made.close()


def behind(proxy: Proxy, server: PostgresServer) -> str:
    return server.url.replace(str(server.folder), str(proxy.folder))


def test_connections_that_were_ended_are_replaced_without_a_word(
    own_store: PostgresStore, own_server: PostgresServer
) -> None:
    for _ in range(3):
        put(own_store, request())
        terminate(own_server.url)

    lent = claim(own_store)
    terminate(own_server.url)

    assert len(lent) == 3
    assert set(settle(own_store, *lent)) == {Settled.SETTLED}


async def test_async_connections_that_were_ended_are_replaced_too(
    own_store: PostgresStore, own_server: PostgresServer
) -> None:
    for _ in range(3):
        await own_store.arun(own_store.put([request()]))
        await asyncio.to_thread(terminate, own_server.url)

    lent = claim(own_store)
    assert len(lent) == 3
    settle(own_store, *lent)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["fast", "immediate"])
def test_after_a_restart_everything_acknowledged_is_there_and_work_goes_on(
    own_store: PostgresStore, own_server: PostgresServer, how: signal.Signals
) -> None:
    put(own_store, request(KEY), request())
    lent = claim(own_store)

    own_server.stop(how)
    with pytest.raises(StoreUnavailable):
        put(own_store, request())
    own_server.start()

    assert set(settle(own_store, *lent)) == {Settled.SETTLED}
    assert claim(own_store) == []


def test_work_goes_on_while_connections_are_ended_all_the_time(
    own_store: PostgresStore, own_server: PostgresServer
) -> None:
    over = threading.Event()

    def harass() -> None:
        while not over.wait(0.05):
            terminate(own_server.url)

    harasser = threading.Thread(target=harass)
    harasser.start()
    wanted = [request() for _ in range(60)]
    done: set[str] = set()
    for one in wanted:
        while True:
            try:
                put(own_store, one)
                break
            except StoreUnavailable:
                continue
    until = time.monotonic() + 60
    while len(done) < len(wanted) and time.monotonic() < until:
        try:
            lent = claim(own_store, limit=10)
            answers = settle(own_store, *lent) if lent else []
            done |= {got.id for got, answer in zip(lent, answers, strict=True) if answer == "settled"}
        except StoreUnavailable:  # its claim or its settle may have been committed all the same
            own_store.run(own_store.disown("w1", []))
            jobs = find(own_store, *(one.id for one in wanted))
            done |= {job.id for job in jobs if job.state is State.DONE}
    over.set()
    harasser.join()

    assert done == {one.id for one in wanted}
    assert own_store.run(own_store.count(Selection(ids=tuple(done)))) == len(wanted)


def test_a_put_whose_answer_was_lost_is_repeated_and_is_one_job(
    cut_off: PostgresStore, proxy: Proxy, own_store: PostgresStore
) -> None:
    wanted = request("lost answer")
    put(cut_off, request("warm up"))
    proxy.cut_after(b"commit\0")

    [placed] = put(cut_off, wanted)

    assert proxy.cuts == 1
    assert (placed.id, placed.decision) == (wanted.id, Decision.KEPT)
    assert len(find(own_store, wanted.id)) == 1
    settle(own_store, *claim(own_store))


def test_a_claim_whose_answer_was_lost_is_told_and_can_be_disowned(
    cut_off: PostgresStore, proxy: Proxy, own_store: PostgresStore
) -> None:
    wanted = request()
    put(cut_off, wanted)
    proxy.cut_after(b"commit\0")

    with pytest.raises(StoreUnavailable, match="may or may not have taken effect"):
        claim(cut_off)
    disowned = own_store.run(own_store.disown("w1", []))

    lent = claim(own_store, "w2")
    assert disowned == 1
    assert [got.id for got in lent] == [wanted.id]
    settle(own_store, *lent, worker="w2")


def test_a_settle_whose_answer_was_lost_is_answered_when_it_is_repeated(
    cut_off: PostgresStore, proxy: Proxy
) -> None:
    put(cut_off, request())
    lent = claim(cut_off)
    proxy.cut_after(b"commit\0")

    with pytest.raises(StoreUnavailable):
        settle(cut_off, *lent)

    assert settle(cut_off, *lent) == [Settled.SETTLED]


def test_a_server_that_says_nothing_is_given_up_in_time(impatient: PostgresStore, proxy: Proxy) -> None:
    put(impatient, request())
    proxy.stall()

    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="did not answer in time"):
        put(impatient, request())

    assert time.monotonic() - began < 60


async def test_an_async_caller_of_a_server_that_says_nothing_is_told_in_time(
    impatient: PostgresStore, proxy: Proxy
) -> None:
    await impatient.arun(impatient.put([request()]))
    proxy.stall()

    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="did not answer in time"):
        await impatient.arun(impatient.put([request()]))

    assert time.monotonic() - began < 60


def listeners(url: str) -> set[int]:
    """The server's processes for those who listen."""
    with psycopg.connect(url) as admin:
        found = admin.execute("select pid from pg_stat_activity where query ilike 'listen %'").fetchall()
    return {pid for (pid,) in found}


def test_a_bell_is_heard_again_after_its_connection_was_ended(
    own_store: PostgresStore, own_server: PostgresServer, namespace: str
) -> None:
    ringer = PostgresStore(own_server.url, namespace=namespace)
    bell = own_store.doorbell()
    assert eventually(lambda: own_store.describe()["bell"] == "listening")
    ended = listeners(own_server.url)
    terminate(own_server.url)
    assert eventually(lambda: bool(listeners(own_server.url) - ended))
    assert eventually(lambda: own_store.describe()["bell"] == "listening")
    while bell.wait(timedelta(milliseconds=50)):
        pass

    ringer.ring()

    assert bell.wait(timedelta(seconds=60))
    bell.close()
    ringer.close()


def test_a_transaction_frozen_between_two_statements_is_ended_by_the_server(
    own_server: PostgresServer, own_store: PostgresStore, namespace: str
) -> None:
    frozen = PostgresStore(own_server.url, namespace=namespace, patience=timedelta(seconds=1))
    wanted = request(KEY)
    thaw = threading.Event()

    def freeze() -> None:
        frozen.run(Operation("put", lambda: paused(frozen.put([wanted]).steps(), thaw)))

    thread = threading.Thread(target=freeze)
    thread.start()
    try:
        assert eventually(lambda: _can_put(own_store))
    finally:
        thaw.set()
        thread.join()
        frozen.close()


def paused(steps: Steps[T], thaw: threading.Event) -> Steps[T]:
    """The same steps, frozen after the second statement."""
    answer: Sequence[Row] | None = None
    for number in count():
        try:
            statement = next(steps) if answer is None else steps.send(answer)
        except StopIteration as stop:
            value: T = stop.value
            return value
        answer = yield statement
        if number == 1:
            thaw.wait(100)
    raise AssertionError("steps end")


def _can_put(store: PostgresStore) -> bool:
    try:
        put(store, request(KEY))
    except StoreUnavailable:
        return False
    return True


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_gets_connections_of_its_own(store: PostgresStore) -> None:
    first, second, third = request(), request(), request()
    put(store, first)
    child = os.fork()
    if child == 0:
        try:
            put(store, second)
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)

    put(store, third)

    assert status == 0
    assert {got.id for got in claim(store)} == {first.id, second.id, third.id}


def test_a_process_holds_no_more_connections_than_it_says(schema: str) -> None:
    store = PostgresStore(f"{postgres_url()}&connections=3&application_name={schema}", namespace=schema)
    threads = [threading.Thread(target=lambda: put(store, request())) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with psycopg.connect(postgres_url()) as admin:
        row = admin.execute(
            "select count(*) from pg_stat_activity where application_name = %s", (schema,)
        ).fetchone()

    assert row is not None
    assert 1 <= row[0] <= 3
    store.close()
