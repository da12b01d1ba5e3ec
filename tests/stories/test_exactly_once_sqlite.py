"""SQLite has one writer: what that means for bodies that hold the file, and for those who wait for it."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
from tests.stories.arrange import PATIENCE, Gate, ended, events, in_state, run_all, until, working
from tests.stories.effects import Effects

from duly import Duly, Run, SoftLimitExceeded
from duly.stores.sqlite import journal

LEASE = 4.0


@pytest.fixture
def app(tmp_path: Path) -> Duly:
    made = Duly(f"sqlite:///{tmp_path / 'duly.db'}", lease=LEASE, poll="50ms", concurrency=4)
    made.open()
    return made


@pytest.fixture
def table(app: Duly) -> Effects:
    return Effects(app.settings.url, "effects")


def test_commits_of_bodies_are_written_back_as_the_engines_are(
    app: Duly, table: Effects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = 100
    monkeypatch.setattr(journal, "COMMITS_BETWEEN", journal.COMMITS_UNSEEN)
    size = functools.partial(os.path.getsize, tmp_path / "duly.db-wal")
    sizes: list[int] = []

    @app.task(delivery="exactly_once")
    def charge(run: Run, amount: int) -> None:
        table.add(run.connection, amount)
        sizes.append(size())

    charge.enqueue_many([((amount,), {}) for amount in range(bodies)])
    run_all(app)

    assert len(table.all()) == bodies
    assert sizes[-1] < 2 * sizes[journal.COMMITS_UNSEEN], "the log is used again, not made ever longer"


def test_a_body_that_holds_the_file_for_longer_than_a_lease_runs_once(app: Duly, table: Effects) -> None:
    gate = Gate()
    starts: list[int] = []

    @app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        starts.append(run.epoch)
        table.add(run.connection, 7)
        gate.wait_here()

    @app.task
    def beside(run: Run) -> None:
        starts.append(-run.epoch)
        other.wait_here()

    other = Gate()
    neighbour = beside.enqueue()
    with working(app), working(app):
        other.reached()
        job = charge.enqueue()
        gate.reached()
        time.sleep(1.4 * LEASE)  # nobody can write meanwhile, so nobody can take anything over
        gate.open()
        ended(app, job)
        other.open()
        ended(app, neighbour)

    assert (table.all(), sorted(starts)) == ([7], [-1, 1])
    assert events(app.jobs.get(job)) == events(app.jobs.get(neighbour)) == ["done"]


def test_a_body_that_waits_for_the_file_can_be_stopped(app: Duly, table: Effects) -> None:
    gate, has_started = Gate(), Gate()
    is_held, is_struck = threading.Event(), threading.Event()

    @app.task(delivery="exactly_once")
    def hold(run: Run) -> None:
        has_started.wait_here()
        table.add(run.connection, 1)
        is_held.set()
        gate.wait_here()

    @app.task(delivery="exactly_once", soft_limit="2s")
    def wait(run: Run) -> None:
        has_started.open()
        try:
            assert is_held.wait(PATIENCE)
            table.add(run.connection, 2)
        except SoftLimitExceeded:
            is_struck.set()
            raise

    holder, job = hold.enqueue(), wait.enqueue()
    with working(app):
        assert is_struck.wait(PATIENCE)
        gate.open()
        ended(app, holder)
        ended(app, job)

    assert (table.all(), job.state()) == ([1], "failed")


def test_a_body_struck_while_it_waits_for_the_file_stands_in_nobodys_way(app: Duly, table: Effects) -> None:
    gate, tidying = Gate(), Gate()
    is_held, is_struck = threading.Event(), threading.Event()
    started: list[str] = []

    @app.task(delivery="exactly_once")
    def hold(run: Run) -> None:
        until(lambda: len(started) == 2)
        table.add(run.connection, 1)
        is_held.set()
        gate.wait_here()

    @app.task(delivery="exactly_once", soft_limit="500ms")
    def tidy_up(run: Run) -> None:
        """Stands in the line before go_on, and is struck there."""
        started.append("tidy_up")
        try:
            assert is_held.wait(PATIENCE)
            table.add(run.connection, 2)
        except SoftLimitExceeded:
            is_struck.set()
            tidying.wait_here()

    @app.task(delivery="exactly_once")
    def go_on(run: Run) -> None:
        started.append("go_on")
        assert is_held.wait(PATIENCE)
        is_struck.wait(0.1)  # tidy_up is in the line by now
        table.add(run.connection, 3)

    jobs = [hold.enqueue(), tidy_up.enqueue(), go_on.enqueue()]
    with working(app):
        gate.reached()
        assert is_struck.wait(PATIENCE)
        gate.open()
        until(lambda: table.all() == [1, 3])
        tidying.open()
        for job in jobs:
            ended(app, job)

    assert table.all() == [1, 3]


def test_bodies_that_wait_are_handed_back_when_the_worker_stops(app: Duly, table: Effects) -> None:
    gate, is_held, waiting = Gate(), threading.Event(), list[Run]()

    @app.task(delivery="exactly_once")
    def hold(run: Run) -> None:
        if run.epoch == 1:
            until(lambda: len(waiting) == 2)  # nobody can claim any more once the file is held
        table.add(run.connection, 0)
        is_held.set()
        gate.wait_here()

    @app.task(delivery="exactly_once")
    def wait(run: Run, amount: int) -> None:
        waiting.append(run)
        assert is_held.wait(PATIENCE)
        table.add(run.connection, amount)

    jobs = [hold.enqueue(), wait.enqueue(1), wait.enqueue(2)]
    with working(app, grace="1s") as worker:
        gate.reached()
        worker.stop(now=True)
        until(lambda: not any(run.is_live_here for run in waiting))  # though the file is still held
        gate.open()

    assert table.all() in ([0], [])  # the holder may have been struck on its way out
    run_all(app)
    assert {job.state() for job in jobs} == {"done"}
    assert table.all() == [0, 1, 2]


def test_a_second_write_from_inside_is_refused_at_once(app: Duly, table: Effects) -> None:
    other = app.task(_nothing)
    waiting = other.using(run_after="1h").enqueue()
    took: list[float] = []

    @app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        table.add(run.connection, 7)
        assert app.jobs.get(waiting).state == "waiting"  # reading is free
        began = time.monotonic()
        try:
            app.jobs.cancel(waiting)
        finally:
            took.append(time.monotonic() - began)

    job = charge.enqueue()
    run_all(app)

    assert job.state() == "failed"
    assert "run.connection" in (app.jobs.get(job).error or "")
    assert took[0] < 4.5  # less than a write waits for others


def _nothing() -> None: ...


def test_a_lock_taken_before_the_first_statement_is_let_go_of(app: Duly, table: Effects) -> None:
    @app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        with app.lock("account:7"):
            effect = 7
        table.add(run.connection, effect)

    charge.enqueue()
    run_all(app)

    assert table.all() == [7]


async def test_an_async_body_that_waits_for_the_file_does_not_hold_up_its_loop(
    app: Duly, table: Effects
) -> None:
    held, go_on = asyncio.Event(), asyncio.Event()
    beats: list[float] = []

    @app.task(delivery="exactly_once")
    async def hold(run: Run) -> None:
        await table.aadd(run.connection, 1)
        held.set()
        await go_on.wait()

    @app.task(delivery="exactly_once")
    async def wait(run: Run, amount: int) -> None:
        await table.aadd(run.connection, amount)

    async with app.worker():
        first = hold.enqueue()
        await asyncio.wait_for(held.wait(), PATIENCE)
        others = [asyncio.create_task(asyncio.to_thread(wait.enqueue, amount)) for amount in (2, 3)]
        for _ in range(20):
            beats.append(time.monotonic())
            await asyncio.sleep(0.01)
        go_on.set()
        jobs = [first, *await asyncio.gather(*others)]
        await app.jobs.await_all(jobs, timeout=PATIENCE)

    assert table.all() == [1, 2, 3]
    assert max(later - earlier for earlier, later in pairwise(beats)) < 4.5


async def test_a_loop_that_waits_to_write_waits_for_no_run_that_has_committed(
    app: Duly, table: Effects
) -> None:
    @app.task(delivery="exactly_once")
    async def charge(run: Run) -> None:
        await table.aadd(run.connection, 7)

    @app.task
    async def beside() -> None: ...

    async with app.worker():
        for _ in range(5):
            job = await charge.aenqueue()
            while table.all() == [] or app.jobs.get(job).state != "done":
                await asyncio.sleep(0)
            beside.enqueue()  # blocks the very loop on which the run gives back its handle

    assert table.all() == [7] * 5


def test_a_process_forked_inside_the_transaction_is_told_to_keep_away(app: Duly, table: Effects) -> None:
    @app.task(delivery="exactly_once", keep_result="1h")
    def fork(run: Run) -> int:
        table.add(run.connection, 7)
        child = os.fork()
        if child == 0:
            try:
                app.jobs.count()
            except Exception as error:
                os._exit(3 if "forked" in str(error) else 4)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    job = fork.enqueue()
    with working(app):
        in_state(app, job, "done")

    assert (table.all(), job.result()) == ([7], 3)


def test_attaching_another_file_is_refused(app: Duly, table: Effects, tmp_path: Path) -> None:
    @app.task(delivery="exactly_once")
    def charge(run: Run) -> None:
        run.connection.execute(f"attach '{tmp_path / 'other.db'}' as other")

    job = charge.enqueue()
    run_all(app)

    assert "ATTACH" in (app.jobs.get(job).error or "")
