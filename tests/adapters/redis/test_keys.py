"""Which keys there are: none that belongs to nobody, all in one slot, and none that two engines share."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from importlib.resources import files
from typing import Any

import pytest
from tests.adapters.redis.conftest import OpenServer, OpenStore
from tests.contract.arrange import (
    HOUR,
    LEASE,
    MINUTE,
    SECOND,
    amend,
    ask,
    beat,
    begin,
    cancel,
    claim,
    claim_all,
    claim_one,
    find,
    put,
    put_one,
    replacing,
    request,
    revive,
    settle,
    start,
    tick,
)
from tests.servers_redis import RedisServer

from duly.job import Clash, Guard, Overlap
from duly.lifecycle import Again, Crash, Defer, Done, Fail, Release, Skip, Stop, TryAgain, Verdict
from duly.stores.contract import Delete, Grip, Lane, Parcel, Postpone, Rate, Scope, Selection, Store, Switch
from duly.stores.drive import Operation
from duly.stores.redis import RedisStore
from duly.testing import VirtualClock

VERDICTS: list[Verdict] = [
    Done("1", HOUR),
    Again(after=MINUTE),
    Stop("enough"),
    TryAgain(MINUTE, "boom"),
    Defer(MINUTE),
    Release(),
    Crash("signal 9", counted=True),
    Fail("boom"),
    Skip("gone"),
]


def live_through_everything(store: Store, clock: VirtualClock) -> None:
    """Every operation and every verdict, on jobs with and without keys."""
    for verdict in VERDICTS:
        for wanted in (request(), request("k", guard=Guard(MINUTE)), request("e", expires_after=HOUR)):
            one = start(store, wanted)
            begin(store, one)
            store.run(store.report({one.fence: "50 %"}))
            settle(store, one, verdict, then=[request("follow", delay=MINUTE)])
            store.run(store.amend(Selection(), Delete()))
        clock.advance(2 * MINUTE)
    settle(store, start(store, request("poll", perpetual=True)), Stop())
    beside = start(store, request("beside"))
    put(store, request("beside", overlap=Overlap.ALLOW))
    for one in (beside, claim_one(store)):
        settle(store, one)
    start(store, request("dead"), "w2")
    start(store, request("left"), "w3")
    store.run(store.leave("w3"))
    put(store, request("dead"), replacing("dead"), tick(1), tick(2, overlap=Overlap.QUEUE_ALL))
    put(store, request(id="failed"), request("late", expires_after=SECOND), request(clash=Clash.SEED))
    clock.advance(LEASE)
    limited = Lane("send", concurrency=5, rate=Rate(50, MINUTE))
    for one in claim(store, ask("w4", lanes=[limited])).claims:
        settle(store, one, Fail("boom") if one.id == "failed" else Done())
    revive(store, "failed")
    amend(store, "failed", Postpone())
    cancel(store, "failed")
    store.run(store.hold(Switch(Scope.TASK, "send", clock.now() + SECOND)))
    store.run(store.hold(Switch(Scope.QUEUE, "default", None)))
    store.run(store.free(Scope.QUEUE, "default"))
    grip = store.run(store.grip("lock", "me", MINUTE))
    assert grip is not None
    store.run(store.keep_grip(grip, MINUTE))
    store.run(store.record("kind", "name", "text"))
    store.run(store.record("kind", "name", None))
    store.run(store.deliver("outbox", [Parcel(request("brought"), 1)]))
    store.run(store.jot("audit", "ann paused it", keep=HOUR))


def retire(store: Store, clock: VirtualClock) -> None:
    """Let every retention pass."""
    clock.advance(timedelta(minutes=10))
    for one in claim_all(store, "last"):
        settle(store, one, worker="last")
    clock.advance(timedelta(days=60))
    store.run(store.leave("last"))
    while store.run(store.prune(100)):
        pass


def test_after_retention_no_key_is_left_without_owner_or_expiry(
    store: RedisStore, clock: VirtualClock, keys: Callable[[], set[str]], client: Any
) -> None:
    store.open()
    baseline = keys()

    live_through_everything(store, clock)
    retire(store, clock)

    left = keys() - baseline
    assert find(store) == []
    assert {name for name in left if not has_expiry(store, client, name)} <= {"tally", "markers"}
    assert left >= {"starts:send"}  # which ends by itself, as said


def test_the_life_that_is_watched_for_leaks_has_every_sort_of_key(
    store: RedisStore, clock: VirtualClock, keys: Callable[[], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[str] = set()
    run = store.run

    def watched(operation: Operation[Any]) -> Any:
        answer = run(operation)
        seen.update(name.partition(":")[0] for name in keys())
        return answer

    monkeypatch.setattr(store, "run", watched)

    live_through_everything(store, clock)

    assert seen == sorts_of_keys() - {"house"}  # which is there while a store is left, and only then


def sorts_of_keys() -> set[str]:
    """As the design says."""
    design = (files("duly.stores.redis") / "DESIGN.md").read_text(encoding="utf-8")
    table = design.partition("## Keys")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    names = [name for _, first, sort, *_ in rows if "channel" not in sort for name in first.split("`")[1::2]]
    return {name.partition(":")[0] for name in names}


def has_expiry(store: RedisStore, client: Any, name: str) -> bool:
    prefix = f"{{{store.describe()['namespace']}}}:"
    return int(client.ttl(f"{prefix}{name}")) > 0


def test_what_is_counted_for_people_is_all_that_the_counts_hold_after_retention(
    store: RedisStore, clock: VirtualClock, client: Any
) -> None:
    live_through_everything(store, clock)
    retire(store, clock)

    counts = client.hgetall(f"{{{store.describe()['namespace']}}}:tally")
    assert set(counts) <= {"=suppressed", "=refused", "=superseded"}


def test_a_marker_is_the_only_thing_a_stopped_perpetual_leaves(
    store: RedisStore, clock: VirtualClock, keys: Callable[[], set[str]]
) -> None:
    store.open()
    baseline = keys()
    settle(store, start(store, request("poll", perpetual=True)), Stop())
    retire(store, clock)

    assert keys() - baseline == {"markers"}


def test_a_job_deleted_at_any_stage_leaves_nothing(
    store: RedisStore, clock: VirtualClock, keys: Callable[[], set[str]]
) -> None:
    store.open()
    baseline = keys()
    put(store, request("w", id="waiting"), request("f", id="finished"), request("r", id="running"))
    one, other, running = claim_all(store)
    settle(store, one, Release())
    settle(store, other, Fail("boom"))
    put_one(store, request("r", id="parked"))

    store.run(store.amend(Selection(), Delete()))
    settle(store, running)
    store.run(store.leave("w1"))

    assert keys() - baseline == set()


def test_a_lock_nobody_let_go_is_forgotten_after_a_day(
    store: RedisStore, clock: VirtualClock, keys: Callable[[], set[str]]
) -> None:
    taken = store.run(store.grip("lock", "me", MINUTE))
    clock.advance(HOUR)
    store.run(store.prune(10))
    kept = {"locks", "grips"} <= keys()
    clock.advance(timedelta(days=1))
    store.run(store.prune(10))

    assert isinstance(taken, Grip)
    assert kept
    assert not {"locks", "grips"} & keys()


# --- one slot -------------------------------------------------------------------------------------


def free_port() -> int:
    """A port that is free together with the one 10,000 above it, where the nodes of a cluster talk.

    Both below those that the system gives to whoever connects, or somebody may have it before the server.
    """
    for port in range(10_000 + os.getpid() % 10_000, 22_000):
        with suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 10_000))
            return port
    raise RuntimeError("no two free ports")


@pytest.fixture
def cluster(open_server: OpenServer) -> RedisServer:
    """A cluster of one node: it refuses a script that touches keys of two slots."""
    server = open_server("--cluster-enabled", "yes", "--bind", "127.0.0.1", "--port", str(free_port()))
    with server.client() as client:
        client.execute_command("CLUSTER", "ADDSLOTS", *range(16384))
        while client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
            pass
    return server


def test_every_operation_works_on_a_cluster(cluster: RedisServer, open_store: OpenStore) -> None:
    clock = VirtualClock()
    store = open_store(cluster.url, clock=clock)

    live_through_everything(store, clock)
    retire(store, clock)

    assert find(store) == []


def test_all_keys_of_an_engine_share_a_slot(cluster: RedisServer, open_store: OpenStore) -> None:
    clock = VirtualClock()
    live_through_everything(open_store(cluster.url, clock=clock), clock)

    with cluster.client() as client:
        slots = {client.execute_command("CLUSTER KEYSLOT", name) for name in client.scan_iter("*")}

    assert len(slots) == 1


# --- several engines ------------------------------------------------------------------------------


def test_two_namespaces_on_one_server_never_meet(server: RedisServer, open_store: OpenStore) -> None:
    one, other = (open_store(server.url, namespace=name) for name in ("one", "other"))
    put(one, request("k", id="j"))

    put_one(other, request("k", id="j", arguments="[[2],{}]"))
    lent = claim_one(other)

    assert lent.arguments == "[[2],{}]"
    assert [job.arguments for job in find(one)] == ["[[],{}]"]
    assert beat(one, lent).lost == {lent.fence}


def test_two_databases_of_one_server_never_meet(server: RedisServer, open_store: OpenStore) -> None:
    one, other = open_store(f"{server.url}?db=0"), open_store(f"{server.url}?db=1")

    put_one(one, request())

    assert claim_all(other) == []
