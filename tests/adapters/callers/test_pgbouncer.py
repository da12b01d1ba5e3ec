"""Producers and workers behind a real PgBouncer that gives each transaction another connection.

Skipped where it is not installed: Debian's package is pgbouncer; `DULY_TEST_PGBOUNCER` names the program.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.adapters.callers.arrange import Shop
from tests.adapters.callers.kinds import with_alchemy_session, with_psycopg
from tests.servers import as_owner, own, postgres_url
from tests.stories.arrange import until, working

CONFIGURATION: Final = """
[databases]
postgres = host={host} dbname=postgres user=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = 5432
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 100
server_reset_query =
logfile = {folder}/log
"""


class Pooler:
    """A PgBouncer that a test may pause, stop and start again."""

    def __init__(self, program: str, host: str, folder: Path) -> None:
        self._command = [program, "-q", str(folder / "pgbouncer.ini")]
        self._socket = folder / ".s.PGSQL.5432"
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "pgbouncer.ini").write_text(CONFIGURATION.format(host=host, folder=folder))
        own(folder)
        self.url = f"postgresql://postgres@/postgres?host={folder}"

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, **as_owner())
        until(self._answers)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url, connect_timeout=1).close()
        except psycopg.OperationalError:
            return False
        return True

    def tell(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(60)


@pytest.fixture
def pooler() -> Generator[Pooler, None, None]:
    program = os.environ.get("DULY_TEST_PGBOUNCER") or shutil.which("pgbouncer", path=_path())
    host = str(conninfo_to_dict(postgres_url()).get("host"))
    if program is None:
        pytest.skip("PgBouncer is not installed: apt install pgbouncer, or name it in DULY_TEST_PGBOUNCER")
    if not host.startswith("/"):
        pytest.skip("DULY_TEST_POSTGRES_URL names a server that is not on a local socket")
    folder = Path(tempfile.mkdtemp(prefix="duly-pooler-"))
    made = Pooler(program, host, folder)
    made.start()
    yield made
    made.stop()
    shutil.rmtree(folder)


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])


@pytest.fixture
def shop(pooler: Pooler, postgres: Shop) -> Generator[Shop, None, None]:
    """All of it through the pooler."""
    made = Shop(pooler.url, pooler.url, postgres.namespace)
    yield made
    made.close()


def done(shop: Shop) -> int:
    return int(shop.app.jobs.count(task="send_receipt", state="done"))


def test_workers_and_producers_drain_what_is_asked_for(shop: Shop) -> None:
    workers = [shop.open_branch(poll="100ms") for _ in range(2)]

    def produce(first: int) -> None:
        with with_psycopg(shop.url) as bare, with_alchemy_session(shop.url) as session:
            for order in range(first, first + 10):
                for user in (bare, session):
                    shop.ask(user.connection, order, f"order:{order}" if order % 2 else None)
                    user.rollback() if order % 5 == 0 else user.commit()
                shop.send_receipt.enqueue(order)

    with working(workers[0]), working(workers[1]):
        threads = [threading.Thread(target=produce, args=(first,)) for first in (0, 100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        until(lambda: shop.app.jobs.count(task="send_receipt") == done(shop))

    # Two producers, each with ten direct requests and sixteen that were committed; of the odd orders' two
    # requests for one key the second may have found the first one waiting.
    assert 2 * (10 + 16 - 5) <= done(shop) <= 2 * (10 + 16)


@pytest.mark.parametrize("how", ["pause", "restart"])
def test_a_pooler_that_goes_away_for_a_while_is_survived(pooler: Pooler, shop: Shop, how: str) -> None:
    with working(shop.open_branch(poll="100ms", lease="20s")):
        shop.send_receipt.enqueue(1)
        until(lambda: done(shop) == 1)
        if how == "pause":
            pooler.tell(signal.SIGUSR1)  # lets transactions end, then keeps everybody waiting
            time.sleep(1)
            pooler.tell(signal.SIGUSR2)
        else:
            pooler.stop()
            time.sleep(1)
            pooler.start()

        shop.send_receipt.enqueue(2)
        until(lambda: done(shop) == 2)

    assert done(shop) == 2  # neither lost nor doubled


def test_a_user_whose_transaction_is_open_while_the_pooler_stops_loses_the_job_with_it(
    pooler: Pooler, shop: Shop
) -> None:
    with psycopg.connect(shop.url, prepare_threshold=None) as user:
        shop.ask(user, 1)
        pooler.stop()
        pooler.start()
        with pytest.raises(psycopg.OperationalError):
            user.commit()

    with psycopg.connect(shop.url, prepare_threshold=None) as user:
        shop.ask(user, 2)
        user.commit()
    assert shop.receipts() == [2]


def test_nothing_stays_with_the_connections_of_the_server(shop: Shop) -> None:
    with working(shop.open_branch(poll="50ms")):
        with with_psycopg(shop.url) as user:
            for order in range(20):
                shop.ask(user.connection, order, f"order:{order}")
                user.commit()
        shop.app.store.ring()
        until(lambda: done(shop) == 20)
        found = _left_behind(shop.url)

    assert found == {("on", "on", "on", "0", "0", 0, 0, 0)}


def _left_behind(url: str) -> set[Any]:
    """What a stranger finds on several of the pooler's connections at once: settings, plans, listeners."""
    question = """
        select current_setting('enable_seqscan'), current_setting('enable_bitmapscan'),
            current_setting('synchronous_commit'), current_setting('lock_timeout'),
            current_setting('statement_timeout'), (select count(*) from pg_prepared_statements),
            (select count(*) from pg_listening_channels()),
            (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())"""
    strangers = [psycopg.connect(url, prepare_threshold=None) for _ in range(3)]
    found = {stranger.execute(question).fetchone() for stranger in strangers}  # each holds on to one
    for stranger in strangers:
        stranger.close()
    return found
