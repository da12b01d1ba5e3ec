"""PostgreSQL dies, comes back and ends connections under load: nothing is lost, and work goes on."""

from __future__ import annotations

import signal
import threading

import psycopg
import pytest
from tests.faults.conftest import LEASE, OpenLoad
from tests.servers import PostgresServer

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.postgres, pytest.mark.timeout(90)]

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
            postgres.start()
        load.assert_recovery(window)

    load.assert_all_is_well()
    assert any("cannot be reached" in refusal for refusal in load.producer.refusals)
    assert all("the store is away" in worker.log for worker in load.workers)


def test_connections_that_are_ended_every_second_cost_no_job(
    postgres: PostgresServer, open_load: OpenLoad
) -> None:
    load = open_load(postgres.url)

    with load.misbehaving() as window, psycopg.connect(postgres.url, autocommit=True) as admin:
        for _ in range(8):
            ended = admin.execute(END_ALL_OTHERS).fetchone()
            threading.Event().wait(1.0)
            assert ended is not None
            assert ended[0] >= 3  # the producer's and the workers'
    load.assert_recovery(window)

    load.assert_all_is_well()
    assert all(load.has_worked(within=window, second=second) for second in range(8))
