"""Bodies that do what they should not with their transaction: nothing is doubled, nothing lost in silence."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Generator
from typing import Any

import psycopg
import pytest
from tests.stories.arrange import Gate, ended, events, run_all, until, working
from tests.stories.effects import Effects

from duly import Duly, Retry, Run, SoftLimitExceeded, failpoints


def error_of(app: Duly, job: Any) -> str:
    return app.jobs.get(job).error or ""


def test_a_thread_that_outlives_its_body_writes_nothing_into_the_next_run(
    exact_app: Duly, effects: Effects
) -> None:
    may_write, has_written = threading.Event(), threading.Event()
    failures: list[Exception] = []

    def write_late(connection: Any) -> None:
        may_write.wait(60)
        try:
            effects.add(connection, 666)
        except Exception as error:
            failures.append(error)
        has_written.set()

    @exact_app.task(delivery="exactly_once")
    def leak(run: Run) -> None:
        effects.add(run.connection, 1)
        threading.Thread(target=write_late, args=(run.connection,)).start()

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        effects.add(run.connection, 2)
        may_write.set()
        assert has_written.wait(60)

    with working(exact_app, concurrency=1):
        ended(exact_app, leak.enqueue())
        ended(exact_app, charge.enqueue())

    assert effects.all() == [1, 2]
    assert len(failures) == 1


def test_a_thread_that_writes_between_two_runs_spoils_neither(exact_app: Duly, effects: Effects) -> None:
    kept: list[Any] = []

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run, amount: int) -> None:
        effects.add(run.connection, amount)
        kept.append(run.connection)

    @exact_app.task
    def take_the_slot() -> None: ...

    with working(exact_app, concurrency=1):
        ended(exact_app, charge.enqueue(1))
        ended(exact_app, take_the_slot.enqueue())  # there is one: the first has left it, connection and all
        with pytest.raises((psycopg.OperationalError, sqlite3.ProgrammingError), match="closed"):
            effects.add(kept[0], 666)
        second = charge.enqueue(2)
        ended(exact_app, second)

    assert (effects.all(), second.state()) == ([1, 2], "done")


def test_a_constraint_that_fails_at_commit_fails_the_run(exact_app: Duly, effects: Effects) -> None:
    with effects.connect() as connection:
        connection.execute(f"create table parent_{effects.name} (id integer primary key)")
        connection.execute(
            f"create table child_{effects.name} (id integer references parent_{effects.name} (id) "
            "deferrable initially deferred)"
        )

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        if effects.is_sqlite:
            run.connection.execute("pragma defer_foreign_keys = on")
        effects.add(run.connection, 7)
        run.connection.execute(f"insert into child_{effects.name} values (1)")

    job = charge.enqueue()
    run_all(exact_app)
    with effects.connect() as connection:
        connection.execute(f"drop table child_{effects.name}")
        connection.execute(f"drop table parent_{effects.name}")

    if not effects.is_sqlite:  # SQLite minds foreign keys only where a connection asks for it first
        assert (effects.all(), job.state()) == ([], "failed")
        assert "foreign key" in error_of(exact_app, job)


def test_write_skew_between_two_serializable_bodies_ends_one_of_them_unharmed(
    exact_app: Duly, effects: Effects
) -> None:
    if effects.is_sqlite:
        pytest.skip("SQLite has one writer: all is serial")
    both = threading.Barrier(2)

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        run.connection.execute("set transaction isolation level serializable")
        ((total,),) = run.connection.execute(f"select count(*) from {effects.name}").fetchall()
        if run.epoch == 1:
            both.wait(60)
        effects.add(run.connection, total)

    jobs = [charge.enqueue(), charge.enqueue()]
    with working(exact_app):
        for job in jobs:
            ended(exact_app, job)

    assert effects.all() == [0, 1]
    assert sorted(events(exact_app.jobs.get(job)) for job in jobs) == [["done"], ["release", "done"]]


def test_a_read_only_transaction_cannot_complete_and_says_so(exact_app: Duly, effects: Effects) -> None:
    if effects.is_sqlite:
        pytest.skip("a handle of SQLite is read-only, not a transaction")

    @exact_app.task(delivery="exactly_once")
    def look(run: Run) -> None:
        run.connection.execute("set transaction read only")

    job = look.enqueue()
    run_all(exact_app)

    assert job.state() == "failed"
    assert "read-only" in error_of(exact_app, job)


def test_autocommit_is_refused(exact_app: Duly, effects: Effects) -> None:
    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        if effects.is_sqlite:
            run.connection.isolation_level = None
        else:
            run.connection.autocommit = True
        effects.add(run.connection, 7)
        raise ValueError("no credit")

    job = charge.enqueue()
    run_all(exact_app)

    assert (effects.all(), job.state()) == ([], "failed")


def test_ticks_of_a_schedule_have_their_effect_once(exact_app: Duly, effects: Effects) -> None:
    @exact_app.schedule(every="200ms", missed="all")
    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        assert run.tick is not None
        effects.add(run.connection, int(run.tick.timestamp() * 5) % 1_000_000)

    with working(exact_app):
        until(lambda: len(effects.all()) >= 2)

    assert len(set(effects.all())) == len(effects.all())


async def test_a_task_that_outlives_its_body_writes_nothing_into_the_next_run(
    exact_app: Duly, effects: Effects
) -> None:
    left: list[asyncio.Task[None]] = []
    may_write, has_written = asyncio.Event(), asyncio.Event()

    async def write_late(connection: Any) -> None:
        await may_write.wait()
        try:
            await effects.aadd(connection, 666)
        finally:
            has_written.set()

    @exact_app.task(delivery="exactly_once")
    async def leak(run: Run) -> None:
        await effects.aadd(run.connection, 1)
        left.append(asyncio.create_task(write_late(run.connection)))

    @exact_app.task(delivery="exactly_once")
    async def charge(run: Run) -> None:
        await effects.aadd(run.connection, 2)
        may_write.set()
        await asyncio.wait_for(has_written.wait(), 60)

    async with exact_app.worker(concurrency=1):
        await exact_app.jobs.await_all([await leak.aenqueue()], timeout=60)
        await exact_app.jobs.await_all([await charge.aenqueue()], timeout=60)

    assert effects.all() == [1, 2]
    assert isinstance(left[0].exception(), Exception)


def test_a_cancel_after_the_effect_rolls_it_back(exact_app: Duly, effects: Effects) -> None:
    if effects.is_sqlite:
        pytest.skip("SQLite has one writer: a cancel waits until the body is over")
    gate = Gate()

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        effects.add(run.connection, 7)
        gate.wait_here()

    job = charge.enqueue()
    with working(exact_app):
        gate.reached()
        job.cancel()
        gate.open()
        ended(exact_app, job)

    assert (effects.all(), job.state()) == ([], "cancelled")


async def test_a_body_that_swallows_its_cancellation_commits_nothing(
    exact_app: Duly, effects: Effects
) -> None:
    if effects.is_sqlite:
        pytest.skip("SQLite has one writer: a cancel waits until the body is over")
    has_begun = asyncio.Event()

    @exact_app.task(delivery="exactly_once")
    async def charge(run: Run) -> None:
        await effects.aadd(run.connection, 7)
        has_begun.set()
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await effects.aadd(run.connection, 8)

    async with exact_app.worker():
        job = charge.enqueue()
        await asyncio.wait_for(has_begun.wait(), 60)
        await asyncio.to_thread(job.cancel)
        await exact_app.jobs.await_all([job], timeout=60)

    assert (effects.all(), job.state()) == ([], "cancelled")


@pytest.fixture
def slow_commits() -> Generator[None, None, None]:
    failpoints.arm("before_commit=sleep for=0.4")
    yield
    failpoints.arm("")


@pytest.mark.usefixtures("slow_commits")
def test_a_soft_limit_that_passes_during_the_commit_changes_nothing(
    exact_app: Duly, effects: Effects
) -> None:
    again = Retry(on=SoftLimitExceeded, attempts=20, backoff="fixed", first="0s")

    # A busy machine may be late for the commit already: then once more.
    @exact_app.task(delivery="exactly_once", soft_limit="200ms", retry=again)
    def charge(run: Run) -> None:
        effects.add(run.connection, 7)

    @exact_app.task(delivery="exactly_once", soft_limit="200ms", retry=again)
    async def charge_on_loop(run: Run) -> None:
        await effects.aadd(run.connection, 8)

    jobs = [charge.enqueue(), charge_on_loop.enqueue()]
    run_all(exact_app, concurrency=1)

    assert (effects.all(), [job.state() for job in jobs]) == ([7, 8], ["done", "done"])


def test_many_rows_may_be_the_first_thing_a_body_writes(exact_app: Duly, effects: Effects) -> None:
    sign = "?" if effects.is_sqlite else "%s"

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run, amounts: list[int]) -> None:
        cursor = run.connection.cursor()
        cursor.executemany(f"insert into {effects.name} values ({sign})", [(amount,) for amount in amounts])
        if 666 in amounts:
            raise ValueError("no credit")

    good, bad = charge.enqueue([1, 2, 3]), charge.enqueue([4, 666])
    run_all(exact_app)

    assert (effects.all(), good.state(), bad.state()) == ([1, 2, 3], "done", "failed")


def test_a_pipeline_may_be_the_first_thing_a_body_opens(exact_app: Duly, effects: Effects) -> None:
    if effects.is_sqlite:
        pytest.skip("only PostgreSQL has pipelines")

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run, amount: int) -> None:
        with run.connection.pipeline():
            effects.add(run.connection, amount)
            effects.add(run.connection, amount)
        if amount < 0:
            raise ValueError("no credit")

    @exact_app.task(delivery="exactly_once")
    async def charge_on_loop(run: Run, amount: int) -> None:
        async with run.connection.pipeline():
            await effects.aadd(run.connection, amount)
        cursor = run.connection.cursor()
        await cursor.executemany(f"insert into {effects.name} values (%s)", [(amount,), (amount,)])

    @exact_app.task(delivery="exactly_once")
    def copy(run: Run, amount: int) -> None:
        with run.connection.cursor().copy(f"copy {effects.name} from stdin") as rows:
            rows.write_row((amount,))

    jobs = [charge.enqueue(1), charge.enqueue(-1), charge_on_loop.enqueue(2), copy.enqueue(3)]
    run_all(exact_app)

    assert [job.state() for job in jobs] == ["done", "failed", "done", "done"]
    assert "no credit" in error_of(exact_app, jobs[1])
    assert effects.all() == [1, 1, 2, 2, 2, 3]


def test_a_blob_written_first_is_part_of_the_transaction(exact_app: Duly, effects: Effects) -> None:
    if not effects.is_sqlite:
        pytest.skip("only SQLite has handles on blobs")
    with effects.connect() as connection:
        connection.execute("create table pictures (content blob)")
        connection.execute("insert into pictures values (zeroblob(3))")

    @exact_app.task(delivery="exactly_once")
    def paint(run: Run) -> None:
        with run.connection.blobopen("pictures", "content", 1) as blob:
            blob.write(b"red")
        raise ValueError("no paint")

    job = paint.enqueue()
    run_all(exact_app)

    with effects.connect() as connection:
        found = connection.execute("select content from pictures").fetchall()
    assert (found, job.state()) == ([(b"\0\0\0",)], "failed")
