"""PostgreSQL dies, comes back and ends connections under load: nothing is lost, and work goes on."""

from __future__ import annotations

import signal
import threading
from datetime import timedelta

import psycopg
import pytest
from tests.faults.conftest import LEASE, OpenLoad
from tests.faults.load import until
from tests.servers import PostgresServer

from duly.stores.postgres import PostgresStore

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.postgres, pytest.mark.timeout(300)]

END_ALL_OTHERS = """
select count(pg_terminate_backend(pid)) from pg_stat_activity
where backend_type = 'client backend' and pid <> pg_backend_pid()
"""


def test_after_crashes_of_the_server_nothing_is_lost_and_work_goes_on(
    postgres: PostgresServer, open_load: OpenLoad
) -> None:
    load = open_load(postgres.url)

    for pause in (0.0, 1.5 * LEASE):  # shorter and longer than a lease
        with load.misbehaving() as window:
            postgres.stop(signal.SIGQUIT)
            threading.Event().wait(pause)
            if pause:
                load.await_notice("cannot be reached")
            postgres.start()
        load.assert_recovery(window)

    load.assert_all_is_well()
    assert all("the store is away" in worker.log for worker in load.workers)


def test_wake_up_calls_are_heard_again_soon_after_a_crash(postgres: PostgresServer) -> None:
    store, other = (PostgresStore(postgres.url, namespace="bells") for _ in range(2))
    bell = store.doorbell()
    until(lambda: store.describe()["bell"] == "listening")

    postgres.stop(signal.SIGQUIT)
    threading.Event().wait(1.5 * LEASE)  # pauses between tries have grown by then
    postgres.start()
    until(lambda: store.describe()["bell"] == "listening")
    while bell.wait(timedelta(milliseconds=50)):
        pass  # rung for what may have been missed meanwhile
    other.ring()

    assert bell.wait(timedelta(seconds=60))
    bell.close()
    store.close()
    other.close()


def test_connections_that_are_ended_every_second_cost_no_job(
    postgres: PostgresServer, open_load: OpenLoad
) -> None:
    load = open_load(postgres.url)

    with load.misbehaving() as window, psycopg.connect(postgres.url, autocommit=True) as admin:
        for _ in range(8):
            ended = admin.execute(END_ALL_OTHERS).fetchone()
            threading.Event().wait(1.0)
            assert ended is not None
            assert ended[0] >= 1
            load.await_work()
    load.assert_recovery(window)

    load.assert_all_is_well()
