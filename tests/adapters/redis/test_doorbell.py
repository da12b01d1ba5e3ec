"""Rings over the server: from every store to every listener, once for each reason."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.adapters.redis.conftest import OpenStore
from tests.contract.arrange import HOUR, claim_one, put, put_one, request, settle
from tests.servers_redis import RedisServer, connected_to

from duly.lifecycle import Done
from duly.stores.contract import Scope, Switch
from duly.stores.redis import RedisStore

LONG = timedelta(seconds=20)


def rings(client: Any) -> int:
    """How often anybody rang on this server so far."""
    stats = client.info("commandstats").get("cmdstat_publish", {"calls": 0})
    return int(stats["calls"])


def test_a_put_rings_for_the_listeners_of_other_stores(server: RedisServer, open_store: OpenStore) -> None:
    bell = open_store(server.url).doorbell()

    put_one(open_store(server.url), request())

    assert bell.wait(LONG)
    bell.close()


def test_engines_on_one_server_do_not_wake_each_other(server: RedisServer, open_store: OpenStore) -> None:
    one = open_store(server.url, namespace="one")
    bell = open_store(server.url, namespace="two").doorbell()
    bell.wait(timedelta(0))

    put_one(one, request())
    with connected_to(server.url) as client:
        heard = client.pubsub_numsub("{one}:bell", "{two}:bell")

    assert [listeners for _, listeners in heard] == [0, 1]
    assert rings_of(server) == 1
    bell.close()


def rings_of(server: RedisServer) -> int:
    with server.client() as client:
        return rings(client)


def test_the_ring_that_follows_a_put_is_not_sent_twice(server: RedisServer, open_store: OpenStore) -> None:
    store = open_store(server.url)

    put(store, *(request() for _ in range(10)))
    store.ring()

    assert rings_of(server) == 1


def test_a_ring_for_its_own_sake_is_sent(server: RedisServer, open_store: OpenStore) -> None:
    store = open_store(server.url)
    put_one(store, request())
    store.ring()

    store.ring()

    assert rings_of(server) == 2


async def test_the_ring_that_follows_an_awaited_put_is_not_sent_twice(
    server: RedisServer, open_store: OpenStore
) -> None:
    store = open_store(server.url)

    await store.arun(store.put([request()]))
    store.ring()

    assert rings_of(server) == 1


def test_what_makes_nothing_ready_rings_for_nobody(server: RedisServer, open_store: OpenStore) -> None:
    store = open_store(server.url)
    put_one(store, request())
    lent = claim_one(store)
    before = rings_of(server)

    settle(store, lent, Done())
    store.run(store.hold(Switch(Scope.TASK, "send", None)))

    assert rings_of(server) == before


def test_a_follow_up_a_promotion_and_a_resumed_lane_ring(server: RedisServer, open_store: OpenStore) -> None:
    store = open_store(server.url)
    put_one(store, request("k"))
    lent = claim_one(store)
    put_one(store, request("k"))
    store.run(store.hold(Switch(Scope.TASK, "send", None)))
    counts = [rings_of(server)]

    settle(store, lent, Done(), then=[request("other", delay=HOUR)])
    counts.append(rings_of(server))
    store.run(store.free(Scope.TASK, "send"))
    counts.append(rings_of(server))

    assert counts == [counts[0], counts[0] + 1, counts[0] + 2]


def test_a_server_that_is_away_keeps_nobody_from_ringing_or_listening(
    server: RedisServer, open_store: OpenStore
) -> None:
    store = open_store(server.url)
    store.open()
    server.stop()

    store.ring()
    bell = store.doorbell()
    bell.wake()

    assert bell.wait(LONG)
    bell.close()


def test_a_closed_store_listens_no_more(server: RedisServer) -> None:
    store = RedisStore(server.url)
    store.doorbell()

    store.close()

    with server.client() as client:
        assert client.pubsub_numsub("{duly}:bell") == [("{duly}:bell", 0)]
