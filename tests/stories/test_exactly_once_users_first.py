"""Nobody waits for a running body, and a recovered job waits for nobody's lock."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest
from tests.servers import postgres_schema, postgres_url
from tests.stories.arrange import Gate, ended, working
from tests.stories.conftest import OPTIONS
from tests.stories.effects import Effects

from duly import Duly, Run


@pytest.fixture
def app(tmp_path: Path) -> Generator[Duly, None, None]:
    app = Duly(postgres_url(), namespace=postgres_schema(tmp_path), **OPTIONS)
    app.open()
    yield app
    app.close()


@pytest.fixture
def effects(app: Duly) -> Generator[Effects, None, None]:
    table = Effects(postgres_url(), f"effects_{app.settings.namespace}")
    yield table
    table.drop()


def test_a_users_write_never_waits_for_a_running_body(app: Duly, effects: Effects) -> None:
    gate = Gate()

    @app.task(delivery="exactly_once")
    def charge(run: Run, amount: int) -> None:
        effects.add(run.connection, amount)
        gate.wait_here()

    @app.task
    def beside() -> None: ...

    running = charge.using(key="order").enqueue(1)
    with working(app):
        gate.reached()
        began = time.monotonic()
        with psycopg.connect(postgres_url()) as connection:
            connection.execute("set local lock_timeout = '100ms'")
            effects.add(connection, 2)
            beside.using(connection=connection).enqueue()
            charge.using(connection=connection, key="order").enqueue(3)
        charge.using(key="order").enqueue(4)
        running.cancel()
        app.jobs.list()
        took = time.monotonic() - began
        gate.open()
        ended(app, running)

    assert took < 30  # the body would hold everybody up for a minute
    assert running.state() == "cancelled"


def test_no_row_of_the_engine_is_locked_while_the_body_runs(app: Duly, effects: Effects) -> None:
    gate = Gate()

    @app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        effects.add(run.connection, 7)
        pids.append(run.connection.execute("select pg_backend_pid()").fetchone()[0])
        gate.wait_here()

    pids: list[int] = []
    job = charge.enqueue()
    with working(app):
        gate.reached()
        with psycopg.connect(postgres_url()) as admin:
            held = admin.execute(
                "select count(*) from pg_locks join pg_class on pg_class.oid = relation "
                "join pg_namespace on pg_namespace.oid = relnamespace where nspname = %s and pid = any (%s)",
                (app.settings.namespace, pids),
            ).fetchone()
        gate.open()
        ended(app, job)

    assert held == (0,)


def test_other_jobs_go_on_while_a_body_waits_for_a_users_row(app: Duly, effects: Effects) -> None:
    @app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        run.connection.execute("set local lock_timeout = '60s'")
        run.connection.execute(f"update {effects.name} set amount = amount + 1 where amount <> 1")

    @app.task(delivery="exactly_once")
    def beside(run: Run) -> None:
        effects.add(run.connection, 1)

    with effects.connect() as user:
        effects.add(user, 0)
        user.execute("begin")
        user.execute(f"update {effects.name} set amount = 100")
        blocked, free = charge.enqueue(), beside.enqueue()
        with working(app):
            ended(app, free)  # while the other body waits for the user's row
            waited_for = blocked.state()
            user.execute("commit")
            ended(app, blocked)

    assert waited_for == "running"
    assert effects.all() == [1, 101]
