"""Exactly once behind a real PgBouncer, which lends a connection of the server for one transaction only.

Skipped where it is not installed: Debian's package is pgbouncer; `DULY_TEST_PGBOUNCER` names the program.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.adapters.callers.test_pgbouncer import Pooler
from tests.servers import postgres_schema, postgres_url
from tests.stories.arrange import Gate, ended, run_all, working
from tests.stories.conftest import OPTIONS
from tests.stories.effects import Effects

from duly import Duly, Run


@pytest.fixture
def pooler() -> Generator[Pooler, None, None]:
    program = os.environ.get("DULY_TEST_PGBOUNCER") or shutil.which("pgbouncer", path="/usr/sbin:/usr/bin")
    host = str(conninfo_to_dict(postgres_url()).get("host"))
    if program is None or not host.startswith("/"):
        pytest.skip("needs PgBouncer and a server on a local socket")
    folder = Path(tempfile.mkdtemp(prefix="duly-pooler-"))
    pooler = Pooler(program, host, folder)
    pooler.start()
    yield pooler
    pooler.stop()
    shutil.rmtree(folder)


@pytest.fixture
def app(pooler: Pooler, tmp_path: Path) -> Generator[Duly, None, None]:
    app = Duly(pooler.url, namespace=postgres_schema(tmp_path), **OPTIONS)
    app.open()
    yield app
    app.close()


@pytest.fixture
def effects(app: Duly) -> Generator[Effects, None, None]:
    table = Effects(postgres_url(), f"effects_{app.settings.namespace}")
    yield table
    table.drop()


def test_bodies_of_every_kind_have_one_effect_each(app: Duly, effects: Effects) -> None:
    @app.task(delivery="exactly_once")
    def charge(run: Run, amount: int) -> None:
        for _ in range(6):  # often enough for the driver to prepare it, if it were let
            run.connection.execute("select %s::int", (amount,))
        effects.add(run.connection, amount)
        if amount < 0:
            raise ValueError("no credit")

    @app.task(delivery="exactly_once")
    async def charge_on_loop(run: Run, amount: int) -> None:
        await effects.aadd(run.connection, amount)
        await charge.aenqueue(amount + 100)

    for amount in range(5):
        charge.enqueue(amount)
        charge.enqueue(-1)
        charge_on_loop.enqueue(amount + 10)
    run_all(app)

    assert effects.all() == [*range(5), *range(10, 15), *range(110, 115)]


def test_a_body_whose_pooler_goes_away_leaves_nothing_and_runs_again(
    app: Duly, effects: Effects, pooler: Pooler
) -> None:
    gate = Gate()

    @app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        effects.add(run.connection, run.epoch)
        if run.epoch == 1:
            gate.wait_here()

    job = charge.enqueue()
    with working(app):
        gate.reached()
        pooler.stop()
        pooler.start()
        gate.open()
        found = ended(app, job)

    assert (effects.all(), found.attempt) == ([2], 0)
