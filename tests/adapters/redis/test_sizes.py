"""Large batches go through, and what waits aside costs a claim nothing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.adapters.redis.conftest import OpenServer, OpenStore
from tests.contract.arrange import KEY, TASK, ask, claim, claim_all, find, put, request, settle, tick

from duly.job import Overlap, State
from duly.lifecycle import Done, Settled
from duly.stores.contract import Lane, Page, Scope, Selection, Settlement, Switch
from duly.stores.redis import RedisStore

MANY = 3500
"""More than one command, one script or one page takes."""


@pytest.mark.parametrize("keyed", [False, True])
def test_thousands_go_through_in_one_call(store: RedisStore, keyed: bool) -> None:
    wanted = [request(f"k{number}" if keyed else None, id=f"j{number:05}") for number in range(MANY)]

    placed = put(store, *wanted)
    lent = claim_all(store, limit=MANY)
    answers = store.run(store.settle("w1", [Settlement(one.fence, Done()) for one in lent]))

    assert [one.id for one in placed] == [one.id for one in lent] == [one.id for one in wanted]
    assert set(answers) == {Settled.SETTLED}
    assert store.run(store.count(Selection(states=(State.DONE,)))) == MANY
    assert len(store.run(store.find(Selection(), Page(limit=MANY + 1)))) == MANY


def test_an_argument_of_the_largest_size_comes_back(store: RedisStore) -> None:
    text = '[["' + "ü" * 120_000 + '"],{}]'

    put(store, request(arguments=text))

    assert claim_all(store)[0].arguments == text


def test_a_rare_job_is_found_among_many(store: RedisStore) -> None:
    put(store, request(id="rare", task="rare"), *(request() for _ in range(MANY)))

    assert [job.id for job in find(store, Selection(tasks=("rare",)))] == ["rare"]
    assert store.run(store.count(Selection(tasks=("rare",)))) == 1


def work(client: Any) -> dict[str, int]:
    """How many jobs were read or moved so far: fields and members named in commands."""
    stats = client.info("commandstats")
    names = ("hmget", "zrangebyscore", "zrem", "zadd", "hset", "zrange", "hgetall")
    return {name: stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in names}


def cost_of_claim(store: RedisStore, client: Any, **asked: Any) -> int:
    before = work(client)
    claim(store, ask("counter", **asked))
    after = work(client)
    return sum(after.values()) - sum(before.values())


HELD = Switch(Scope.TASK, "aside", None)


@pytest.mark.parametrize("aside", ["paused", "unknown", "full", "parked"])
def test_jobs_that_cannot_run_now_cost_a_claim_no_more_when_they_are_many(
    server_store: RedisStore, server_client: Any, aside: str
) -> None:
    store = server_store
    lanes = [Lane(TASK)] + ([] if aside == "unknown" else [Lane("aside", concurrency=1)])
    key = KEY if aside == "parked" else None
    overlap = Overlap.QUEUE_ALL
    put(store, request(key, task="aside", serial=key, overlap=overlap))
    claim(store, ask(lanes=[Lane("aside")]))
    if aside == "paused":
        store.run(store.hold(HELD))
    costs: list[int] = []
    for number in range(2):
        rest = range(number * 500)
        put(
            store,
            *(
                request(f"k{one}" if key else None, serial=key, task="aside", priority=9, overlap=overlap)
                for one in rest
            ),
        )
        put(store, request())
        costs.append(cost_of_claim(store, server_client, lanes=lanes, limit=10))

    assert costs[1] <= costs[0] + 5


def test_a_claim_that_finds_nothing_writes_nothing(open_server: OpenServer, open_store: OpenStore) -> None:
    server = open_server("--appendonly", "yes", "--appendfsync", "always")
    store = open_store(server.url)
    claim_all(store)  # the first one leaves its lease
    before = (server.folder / "appendonly.aof").stat().st_size

    for _ in range(10):
        claim_all(store)

    assert (server.folder / "appendonly.aof").stat().st_size == before


def test_finished_jobs_cost_a_claim_nothing(server_store: RedisStore, server_client: Any) -> None:
    store = server_store
    costs: list[int] = []
    for _ in range(2):
        put(store, request())
        costs.append(cost_of_claim(store, server_client, limit=10))
        put(store, *(request() for _ in range(1000)))
        for one in claim_all(store, limit=1000):
            settle(store, one)

    assert costs[1] <= costs[0] + 2


def test_a_tick_is_put_behind_many_others_without_reading_them(
    server_store: RedisStore, server_client: Any
) -> None:
    put(server_store, *(tick(number, overlap=Overlap.QUEUE_ALL) for number in range(1200)))
    before = work(server_client)["hmget"]

    put(server_store, tick(1200, overlap=Overlap.QUEUE_ALL))

    assert work(server_client)["hmget"] - before == 1  # is its id known?
