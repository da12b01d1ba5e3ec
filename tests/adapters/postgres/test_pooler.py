"""Behind a pooler that gives every transaction another connection: nothing may need the one before.

With a real PgBouncer where there is one (`DULY_TEST_PGBOUNCER` names the program); and everywhere with a
store that is told so and must do without what a session would remember.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.adapters.postgres.arrange import KEY, claim, find, put, request, settle
from tests.servers import as_owner, own, postgres_url
from tests.stories.arrange import until

from duly.job import State
from duly.lifecycle import Settled
from duly.stores.contract import Cancel, Scope, Selection, Switch
from duly.stores.postgres import PostgresStore

CONFIGURATION = """
[databases]
postgres = host={host} dbname=postgres user=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = 5432
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 100
logfile = {folder}/log
"""


def program() -> str | None:
    named = os.environ.get("DULY_TEST_PGBOUNCER")
    return named or shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


def answers(url: str) -> bool:
    """Its socket is there before anybody listens."""
    try:
        psycopg.connect(url, connect_timeout=10).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture(scope="module")
def pooled_url() -> Iterator[str]:
    found = program()
    host = conninfo_to_dict(postgres_url()).get("host")
    if found is None:
        pytest.skip("PgBouncer is not installed: apt install pgbouncer, or name it in DULY_TEST_PGBOUNCER")
    if not str(host).startswith("/"):
        pytest.skip("DULY_TEST_POSTGRES_URL names a server that is not on a local socket")
    folder = Path(tempfile.mkdtemp(prefix="duly-pooler-"))
    (folder / "pgbouncer.ini").write_text(CONFIGURATION.format(host=host, folder=folder))
    own(folder)
    pooler = subprocess.Popen(
        [found, "-q", folder / "pgbouncer.ini"], stdout=subprocess.DEVNULL, **as_owner()
    )
    url = f"postgresql://postgres@/postgres?host={folder}"
    until(lambda: answers(url))
    yield url
    pooler.terminate()
    pooler.wait()
    shutil.rmtree(folder)


@pytest.fixture(params=["pgbouncer", "told"])
def pooled(request: pytest.FixtureRequest, url: str, schema: str) -> Iterator[PostgresStore]:
    there = url + "&pooler=yes" if request.param == "told" else request.getfixturevalue("pooled_url")
    made = PostgresStore(there, namespace=schema)
    made.open()
    yield made
    made.close()


def test_the_pooler_is_noticed(pooled: PostgresStore) -> None:
    assert pooled.describe()["pooler"] == "yes"


def test_work_is_done(pooled: PostgresStore) -> None:
    for _ in range(10):
        put(pooled, request(KEY), *(request() for _ in range(5)))
        lent = claim(pooled)
        assert len(lent) == 6
        assert settle(pooled, *lent) == [Settled.SETTLED] * 6

    assert pooled.run(pooled.count(Selection(states=(State.DONE,)))) == 60


def test_many_threads_work_at_once(pooled: PostgresStore) -> None:
    done: list[str] = []

    def work(number: int) -> None:
        for turn in range(10):
            put(pooled, request(), request(f"key {number}/{turn}"))
            lent = claim(pooled, f"w{number}", limit=3)
            while lent:  # on a busy machine a claim of another thread holds a key for long: ask again
                answers = settle(pooled, *lent, worker=f"w{number}")
                pairs = list(zip(lent, answers, strict=True))
                done.extend(got.id for got, answer in pairs if answer is Settled.SETTLED)
                lent = [got for got, answer in pairs if answer is Settled.BUSY]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while lent := claim(pooled):
        settle(pooled, *lent)
        done += [got.id for got in lent]

    assert len(done) == len(set(done)) == 80


def test_settings_do_not_stay_with_the_connection(pooled: PostgresStore, url: str) -> None:
    put(pooled, request())
    pooled.ring()
    pooled.close()  # when the ring was sent
    there = url if "&pooler" in pooled.url else pooled.url
    question = "select current_setting('enable_seqscan'), current_setting('synchronous_commit')"

    with psycopg.connect(there, autocommit=True, prepare_threshold=None) as stranger:
        found = {stranger.execute(question).fetchone() for _ in range(10)}

    assert found == {("on", "on")}


def test_the_rest_of_a_store_works_too(pooled: PostgresStore) -> None:
    put(pooled, request(), request())
    pooled.run(pooled.hold(Switch(Scope.QUEUE, "default", None)))
    while_held = claim(pooled)
    pooled.run(pooled.free(Scope.QUEUE, "default"))
    [lent] = claim(pooled, limit=1)
    pooled.run(pooled.amend(Selection(ids=(lent.id,)), Cancel()))
    settle(pooled, lent)
    grip = pooled.run(pooled.grip("lock", "me", timedelta(seconds=10)))

    assert while_held == []
    assert find(pooled, lent.id)[0].state is State.CANCELLED
    assert grip is not None
    assert pooled.run(pooled.let_go(grip))


async def test_an_event_loop_works_too(pooled: PostgresStore) -> None:
    wanted = [request() for _ in range(5)]
    for one in wanted:
        await pooled.arun(pooled.put([one]))

    assert len(claim(pooled)) == 5


def test_a_bell_is_quiet_and_waiting_ends_by_itself(pooled: PostgresStore) -> None:
    bell = pooled.doorbell()

    assert not bell.wait(timedelta(milliseconds=200))
    assert pooled.describe()["bell"] == "polling"

    pooled.ring()
    assert bell.wait(timedelta(seconds=5))  # within one process a ring needs no server
    bell.close()
