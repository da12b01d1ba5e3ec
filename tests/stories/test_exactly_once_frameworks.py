"""Transactions out of the application's own hands: SQLAlchemy's engines and sessions, Django, any block."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from tests.stories.arrange import Gate, ended, run_all, working
from tests.stories.conftest import OPTIONS, Place
from tests.stories.effects import Effects

from duly import DefinitionError, Duly, Run


@pytest.fixture
def engine(exact_place: Place) -> Generator[Engine, None, None]:
    url = exact_place.url
    made = create_engine(
        url if url.startswith("sqlite") else url.replace("postgresql://", "postgresql+psycopg://")
    )
    yield made
    made.dispose()


def opened(place: Place, transactions: Any) -> Duly:
    app = Duly(place.url, transactions=transactions, **OPTIONS)
    app.open()
    return app


def insert(effects: Effects, amount: int) -> Any:
    return text(f"insert into {effects.name} values ({amount})")


@pytest.mark.parametrize("kind", ["engine", "sessionmaker"])
def test_the_connection_is_theirs_and_commits_with_the_run(
    exact_place: Place, effects: Effects, engine: Engine, kind: str
) -> None:
    app = opened(exact_place, engine if kind == "engine" else sessionmaker(engine))

    @app.task
    def receipt(amount: int) -> None:
        receipts.append(amount)

    receipts: list[int] = []

    @app.task(delivery="exactly_once")
    def charge(run: Run, amount: int) -> None:
        assert isinstance(run.connection, Session) is (kind == "sessionmaker")
        run.connection.execute(insert(effects, amount))
        receipt.enqueue(amount)
        if amount < 0:
            raise ValueError("no credit")

    good, bad = charge.enqueue(7), charge.enqueue(-7)
    run_all(app)

    assert (effects.all(), receipts) == ([7], [7])
    assert (good.state(), bad.state()) == ("done", "failed")
    app.close()


def test_a_block_that_begins_by_reading_has_the_write_lock_all_the_same(
    exact_place: Place, effects: Effects
) -> None:
    """Django's plain BEGIN has no lock, and to a reader who wants to write SQLite says no without waiting."""
    if not effects.is_sqlite:
        pytest.skip("PostgreSQL locks rows")
    file = exact_place.url.removeprefix("sqlite:///")

    @contextmanager
    def deferred() -> Generator[sqlite3.Connection, None, None]:
        connection = sqlite3.connect(file, isolation_level=None)
        connection.execute("begin deferred")
        try:
            yield connection
            connection.execute("commit")
        finally:
            connection.close()

    app = opened(exact_place, deferred)
    refusals: list[str] = []

    @app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        assert run.connection.execute(f"select amount from {effects.name}").fetchall() == []
        rival = sqlite3.connect(file, isolation_level=None, timeout=0)
        with closing(rival), pytest.raises(sqlite3.OperationalError) as refused:
            rival.execute("begin immediate")
        refusals.append(str(refused.value))
        run.connection.execute(f"insert into {effects.name} values (7)")

    job = charge.enqueue()
    run_all(app)

    assert (effects.all(), job.state(), refusals) == ([7], "done", ["database is locked"])
    app.close()


def test_their_transaction_rolls_back_when_the_run_was_superseded(
    exact_place: Place, effects: Effects, engine: Engine
) -> None:
    app, gate = opened(exact_place, sessionmaker(engine)), Gate()

    @app.task(delivery="exactly_once")
    def charge(run: Run, amount: int) -> None:
        if amount == 1:
            gate.wait_here()
        run.connection.execute(insert(effects, amount))

    older = charge.using(key="order").enqueue(1)
    with working(app):
        gate.reached()
        newer = charge.using(key="order", replace=True).enqueue(2)
        gate.open()
        ended(app, newer)
        ended(app, older)

    assert (effects.all(), older.state()) == ([2], "cancelled")
    app.close()


def test_a_session_that_the_body_commits_itself_is_found_out(
    exact_place: Place, effects: Effects, engine: Engine
) -> None:
    app = opened(exact_place, sessionmaker(engine))

    @app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        run.connection.execute(insert(effects, 7))
        run.connection.commit()

    job = charge.enqueue()
    run_all(app)

    assert job.state() == "failed"
    app.close()


async def test_an_async_session_is_awaited(exact_place: Place, effects: Effects) -> None:
    if effects.is_sqlite:
        pytest.skip("aiosqlite keeps its connection in a thread of its own")
    engine = create_async_engine(exact_place.url.replace("postgresql://", "postgresql+psycopg://"))
    app = opened(exact_place, async_sessionmaker(engine))

    @app.task(delivery="exactly_once")
    async def charge(run: Run, amount: int) -> None:
        await run.connection.execute(insert(effects, amount))
        if amount < 0:
            raise ValueError("no credit")

    jobs = [charge.enqueue(7), charge.enqueue(-7)]
    async with app.worker():
        await app.jobs.await_all(jobs, timeout=60)

    assert effects.all() == [7]
    await engine.dispose()
    app.close()


def test_any_block_that_commits_at_its_end_will_do(exact_app: Duly, effects: Effects) -> None:
    @contextmanager
    def block() -> Generator[Any, None, None]:
        with effects.connect() as connection:
            connection.execute("begin")
            try:
                yield connection
            except BaseException:
                connection.execute("rollback")
                raise
            connection.execute("commit")

    exact_app.transactions = block

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run, amount: int) -> None:
        effects.add(run.connection, amount)
        if amount < 0:
            raise ValueError("no credit")

    charge.enqueue(7)
    charge.enqueue(-7)
    run_all(exact_app)

    assert effects.all() == [7]


def test_another_database_is_refused(exact_app: Duly, effects: Effects) -> None:
    exact_app.transactions = lambda: sqlite3.connect(":memory:")

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        run.connection.execute("select 1")

    job = charge.enqueue()
    run_all(exact_app)

    assert job.state() == "failed"
    assert "WrongConnection" in (exact_app.jobs.get(job).error or "")


def test_what_makes_no_transactions_is_refused(exact_app: Duly) -> None:
    from duly.transactions.borrowed import block_of

    with pytest.raises(DefinitionError, match="context manager"):
        block_of(7)
    with pytest.raises(DefinitionError, match="django:ALIAS"):
        block_of("rails:default")


SITE = Path(__file__).parent / "programs" / "charging_site.py"


@pytest.mark.parametrize("how", ["works", "fails", "undoes"])
def test_a_django_body_is_one_atomic_block(exact_place: Place, effects: Effects, how: str) -> None:
    words = [exact_place.url, exact_place.namespace, effects.name, how]
    done = subprocess.run(
        [sys.executable, str(SITE), *words], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.split() == (["done", "waiting:1"] if how == "works" else ["failed", "waiting:0"])
    assert effects.all() == ([7] if how == "works" else [])


def test_a_block_that_ends_without_a_commit_fails_its_run(exact_app: Duly, effects: Effects) -> None:
    @contextmanager
    def block() -> Generator[Any, None, None]:
        with effects.connect() as connection:
            connection.execute("begin")
            yield connection
            connection.execute("rollback")

    exact_app.transactions = block

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        effects.add(run.connection, 7)

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state()) == ([], "failed")
    assert "did not commit" in (exact_app.jobs.get(job).error or "")


def test_a_body_that_commits_their_transaction_and_begins_another_is_found_out(
    exact_app: Duly, effects: Effects
) -> None:
    @contextmanager
    def block() -> Generator[Any, None, None]:
        with effects.connect() as connection:
            connection.execute("begin")
            yield connection
            if connection.in_transaction if effects.is_sqlite else not connection.closed:
                connection.execute("commit")

    exact_app.transactions = block

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        run.connection.execute("commit")
        run.connection.execute("begin")
        effects.add(run.connection, 7)

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state()) == ([], "failed")
    assert "ended the transaction" in (exact_app.jobs.get(job).error or "")


def test_a_session_closed_by_the_body_keeps_nothing(
    exact_place: Place, effects: Effects, engine: Engine
) -> None:
    app = opened(exact_place, sessionmaker(engine))

    @app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        run.connection.execute(insert(effects, 7))
        run.connection.close()

    job = charge.enqueue()
    run_all(app)

    assert (effects.all(), job.state()) == ([], "failed")
    app.close()
