"""Redis stops, forgets, stalls and changes its mind under load: nothing is lost, and work goes on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.faults.conftest import LEASE, OpenLoad
from tests.faults.load import Load
from tests.servers_redis import RedisServer

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.redis, pytest.mark.timeout(300)]

Harm = Callable[[Any], object]


def repeat(load: Load, act: Callable[[], object], *, times: int, pause: float) -> None:
    """Again and again, and each time work goes on."""
    for _ in range(times):
        act()
        threading.Event().wait(pause)
        load.await_work()


def fill(server: RedisServer) -> None:
    """Give it something to load: only after each thousand commands it answers that it is loading."""
    with server.client() as client, client.pipeline(transaction=False) as pipeline:
        for number in range(15_000):
            pipeline.set("filler", number)
        pipeline.execute()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["shut down", "killed"])
def test_after_restarts_of_the_server_nothing_is_lost_and_work_goes_on(
    redis_server: RedisServer, open_load: OpenLoad, how: signal.Signals
) -> None:
    load = open_load(redis_server.url)

    for pause in (0.0, 1.5 * LEASE):  # shorter and longer than a lease
        with load.misbehaving() as window:
            redis_server.stop(how)
            threading.Event().wait(pause)
            if pause:
                load.await_notice("cannot be reached")
            redis_server.start()
        load.assert_recovery(window)

    load.assert_all_is_well()
    assert all("the store is away" in worker.log for worker in load.workers)


def test_a_server_that_takes_its_time_to_load_is_waited_for(
    redis_server: RedisServer, open_load: OpenLoad
) -> None:
    load = open_load(redis_server.url)
    fill(redis_server)

    with load.misbehaving() as window:
        redis_server.stop()
        redis_server.start("--key-load-delay", "100")  # microseconds for each command of its file
    load.assert_recovery(window)

    load.assert_all_is_well()
    told = [*load.producer.refusals, *(worker.log for worker in load.workers)]
    assert any("is loading its data" in words for words in told)


def test_connections_that_are_killed_every_second_cost_no_job(
    redis_server: RedisServer, open_load: OpenLoad
) -> None:
    load = open_load(redis_server.url)

    with load.misbehaving() as window, redis_server.client() as client:

        def kill_all() -> None:
            killed = client.client_kill_filter(_type="normal", skipme=True)
            client.client_kill_filter(_type="pubsub")
            assert killed >= 1

        repeat(load, kill_all, times=6, pause=1.0)
    load.assert_recovery(window)

    load.assert_all_is_well()


def test_scripts_that_are_forgotten_all_the_time_are_taught_again(
    redis_server: RedisServer, open_load: OpenLoad
) -> None:
    load = open_load(f"{redis_server.url}?timeout=60s", lease=60.0)

    with load.misbehaving(), redis_server.client() as client:
        repeat(load, client.script_flush, times=20, pause=0.2)

    load.assert_all_is_well(repeats=0)
    assert load.producer.refusals == []


def test_a_server_that_pauses_is_waited_for_and_costs_no_run(
    redis_server: RedisServer, open_load: OpenLoad
) -> None:
    load = open_load(f"{redis_server.url}?timeout=60s", lease=60.0)

    with load.misbehaving() as window, redis_server.client() as client:
        client.client_pause(round(LEASE / 3 * 1000))
        client.ping()  # is answered when the pause is over
    load.assert_recovery(window)

    load.assert_all_is_well(repeats=0)
    assert load.producer.refusals == []


def test_a_replica_is_waited_for_until_it_is_promoted(redis_server: RedisServer, open_load: OpenLoad) -> None:
    load = open_load(redis_server.url)

    with redis_server.client() as client:
        with load.misbehaving() as window:
            client.replicaof("127.0.0.1", "1")
            threading.Event().wait(1.5 * LEASE)
            load.await_notice("Point the URL at the primary")
            client.replicaof("NO", "ONE")
        load.assert_recovery(window)

    load.assert_all_is_well()
