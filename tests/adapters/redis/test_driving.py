"""Threads, loops, forks and clocks around the store."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis import exceptions
from tests.adapters.redis.conftest import OpenStore
from tests.contract.arrange import (
    ask,
    beat,
    claim_all,
    claim_one,
    find,
    look,
    put,
    put_one,
    request,
    settle,
)
from tests.servers_redis import RedisServer

from duly import Duly
from duly.clock import SystemClock
from duly.lifecycle import Settled
from duly.stores.contract import Selection
from duly.stores.drive import Operation, Statement, Steps
from duly.stores.redis import RedisStore, wires
from duly.stores.redis.driver import CONNECTIONS
from duly.stores.redis.wires import Wires


def test_many_threads_share_one_store_and_a_bounded_number_of_connections(
    server: RedisServer, open_store: OpenStore
) -> None:
    store = open_store(server.url)
    threads = [
        threading.Thread(target=lambda: [put_one(store, request()) for _ in range(20)]) for _ in range(40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    with server.client() as client:
        mine = [one for one in client.client_list() if one["cmd"] != "client|list"]
    assert store.run(store.count(Selection())) == 800
    assert len(mine) <= CONNECTIONS + 1


def test_who_finds_all_connections_in_use_is_not_kept_waiting_without_end() -> None:
    nobody: Any = None

    with pytest.raises(exceptions.ConnectionError, match="No connection available"):
        Wires(nobody, most=0, patience=0.0).ask("PING")


def test_the_drivers_own_way_serves_where_hiredis_is_missing(
    server: RedisServer, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wires, "READER", None)
    store = open_store(server.url)

    put_one(store, request(id="without"))

    assert [job.id for job in find(store)] == ["without"]


def test_one_store_serves_one_loop_after_the_other(store: RedisStore) -> None:
    for number in range(3):
        asyncio.run(store.arun(store.put([request(id=f"j{number}")])))

    assert len(find(store)) == 3


async def test_many_coroutines_share_one_store(store: RedisStore) -> None:
    await asyncio.gather(*(store.arun(store.put([request()])) for _ in range(100)))

    assert await store.arun(store.count(Selection())) == 100


def child(store: RedisStore, answers: Any) -> None:
    put_one(store, request(id="from the child"))
    answers.put([job.id for job in find(store)])
    store.close()


def test_a_forked_child_has_connections_of_its_own(store: RedisStore) -> None:
    fork = multiprocessing.get_context("fork")
    put_one(store, request(id="from the parent"))
    answers = fork.SimpleQueue()

    process = fork.Process(target=child, args=(store, answers))
    process.start()
    seen = answers.get()
    process.join()
    put_one(store, request(id="afterwards"))

    assert seen == ["from the child", "from the parent"]
    assert process.exitcode == 0
    assert len(find(store)) == 3


def test_a_closed_store_opens_again_when_it_is_used(store: RedisStore) -> None:
    put_one(store, request())
    store.close()
    store.close()

    assert len(claim_all(store)) == 1


class WrongClock(SystemClock):
    """This machine is an hour late."""

    def now(self) -> datetime:
        return super().now() - timedelta(hours=1)


def test_the_servers_clock_counts_and_not_that_of_the_caller(
    server: RedisServer, open_store: OpenStore
) -> None:
    store = open_store(server.url, clock=WrongClock())
    with server.client() as client:
        seconds, _ = client.time()

    placed = put_one(store, request(delay=timedelta(0)))

    created = look(store, placed.id).created_at
    assert abs(created - datetime.fromtimestamp(seconds, UTC)) < timedelta(seconds=30)
    assert len(claim_all(store)) == 1


def test_an_application_finds_its_store_by_the_url(server: RedisServer) -> None:
    app = Duly(server.url, namespace="shop")

    @app.task
    def greet(name: str) -> None: ...

    greet.enqueue("you")

    assert isinstance(app.store, RedisStore)
    assert [job.task for job in app.jobs.list()] == [greet.name]
    app.close()


@pytest.mark.parametrize("amount", [1, 2500])
def test_a_put_in_an_interrupted_batch_is_repeated_without_doubling(store: RedisStore, amount: int) -> None:
    wanted = [request() for _ in range(amount)]
    put(store, *wanted[: amount // 2 + 1])

    put(store, *wanted)

    assert store.run(store.count(Selection())) == amount


def test_a_claim_that_arrives_after_its_worker_disowned_it_lends_nothing(store: RedisStore) -> None:
    beat(store, worker="w1")
    put_one(store, request(id="a"))
    on_its_way = next(store.claim(ask("w1")).steps())

    store.run(store.disown("w1", []))
    beat(store, worker="w1")
    [[lent, *_]] = json.loads(store.run(Operation("claim", lambda: arriving(on_its_way))))

    assert lent == []
    assert claim_one(store, "w1").id == "a"


def test_a_disowning_that_arrives_after_a_later_one_takes_nothing_away(store: RedisStore) -> None:
    beat(store, worker="w1")
    put_one(store, request(id="a"))
    on_its_way = next(store.disown("w1", []).steps())
    store.run(store.disown("w1", []))
    lent = claim_one(store, "w1")

    [[released]] = store.run(Operation("disown", lambda: arriving(on_its_way)))

    assert released == 0
    assert settle(store, lent) is Settled.SETTLED


def arriving(statement: Statement) -> Steps[Any]:
    """Sent long ago, and delayed by the network."""
    return (yield statement)
