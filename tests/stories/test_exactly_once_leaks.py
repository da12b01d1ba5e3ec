"""Whatever way a run ends, its connection is kept for the next one, or closed: none is ever lost."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.servers import postgres_schema, postgres_url
from tests.stories.arrange import Gate, ended, events, run_all, until, working
from tests.stories.conftest import OPTIONS
from tests.stories.cutter import GREETING, Cutter
from tests.stories.effects import Effects

from duly import Duly, Run, SoftLimitExceeded
from duly.errors import StoreError
from duly.executors.threads import Threads
from duly.shield import shielded
from duly.stores.postgres import PostgresStore
from duly.transactions.postgres import PostgresSource
from duly.transactions.postgres_wires import BodyConnection
from duly.worker.transaction import Counter


@pytest.fixture
def label(tmp_path: Path) -> str:
    return f"leaks_{postgres_schema(tmp_path)}"[:60]


@pytest.fixture
def app(tmp_path: Path, label: str) -> Generator[Duly, None, None]:
    url = f"{postgres_url()}&application_name={label}"
    app = Duly(url, namespace=postgres_schema(tmp_path), **OPTIONS)
    app.open()
    yield app
    app.close()
    until(lambda: open_connections(label) == 0)


def open_connections(label: str) -> int:
    with psycopg.connect(postgres_url()) as admin:
        asked = "select count(*) from pg_stat_activity where application_name = %s"
        ((count,),) = admin.execute(asked, (label,)).fetchall()
    return int(count)


class SlowToMake:
    """Makes transactions; whoever asks for the first waits a little for others who ask as well."""

    def __init__(self) -> None:
        self._company = threading.Barrier(2)

    @property
    def begin(self) -> Any:
        with suppress(threading.BrokenBarrierError):
            self._company.wait(0.2)
        return nullcontext


def test_bodies_that_come_first_together_share_one_source(exact_app: Duly) -> None:
    exact_app.transactions = SlowToMake()
    counter = Counter(exact_app, "worker")

    with ThreadPoolExecutor(2) as threads:
        one, other = (threads.submit(lambda: counter.source) for _ in range(2))

    assert one.result() is other.result()


def test_a_body_left_behind_does_not_keep_its_connection(exact_app: Duly) -> None:
    counter = Counter(exact_app, "worker")
    counter.close()

    late = counter.source.lend("late")
    late.connection.execute("select 1")
    late.roll_back()
    late.give_back()

    again = counter.source.lend("later")
    assert again.connection is not late.connection
    again.give_back()


class ClosesMeanwhile(BodyConnection):
    """While it is made ready for the next run, its source closes, or waits for that to be over."""

    source: PostgresSource | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "row_factory" and self.source is not None and self.loan is None:
            closing = threading.Thread(target=self.source.close)
            closing.start()
            closing.join(0.2)


def test_what_is_given_back_while_the_source_closes_is_closed(app: Duly) -> None:
    source = source_of(app)
    loan = source.lend("last")
    loan.connection.execute("select 1")
    loan.roll_back()
    loan.connection.__class__ = ClosesMeanwhile
    loan.connection.source = source  # type: ignore[attr-defined]

    loan.give_back()

    until(lambda: loan.connection.closed)


def source_of(app: Duly) -> PostgresSource:
    assert isinstance(app.store, PostgresStore)
    return PostgresSource(app.store, timedelta(seconds=30))


def test_a_connection_that_cannot_be_made_ready_is_closed(app: Duly) -> None:
    cutter = Cutter(GREETING, "garbled")
    store = PostgresStore(cutter.url, namespace=app.settings.namespace)

    with pytest.raises(StoreError, match="syntax"):
        PostgresSource(store, timedelta(seconds=30)).lend("early")

    assert cutter.cuts == 1
    cutter.close()


def test_a_connection_that_is_being_opened_is_not_torn_from_its_run(
    exact_app: Duly, effects: Effects
) -> None:
    steps: list[str] = []

    @contextmanager
    def block() -> Generator[Any, None, None]:
        with effects.connect() as connection:
            until_is_late(0.4)
            steps.append("entered")
            connection.execute("begin")
            try:
                yield connection
            finally:
                steps.append("left")
                connection.execute("rollback")

    exact_app.transactions = block

    @exact_app.task(delivery="exactly_once", soft_limit="100ms")
    def charge(run: Run) -> None:
        try:
            effects.add(run.connection, 7)
            until_is_late(60)
        except SoftLimitExceeded:
            steps.append("struck")
            raise

    job = charge.enqueue()
    run_all(exact_app)

    assert (steps, job.state()) == (["entered", "struck", "left"], "failed")


def until_is_late(seconds: float) -> None:
    """Python steps, between any two of which an interrupt could strike."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.001)


def test_an_interrupt_waits_for_what_is_shielded_and_the_next_one_strikes_again() -> None:
    is_inside, may_leave, seen = threading.Event(), threading.Event(), list[str]()

    def act() -> None:
        is_inside.set()
        assert may_leave.wait(60)
        seen.append("whole")

    def body() -> None:
        try:
            shielded(act)
        except SoftLimitExceeded:
            seen.append("struck afterwards")
        is_inside.set()
        try:
            until_is_late(60)
        except SoftLimitExceeded:
            seen.append("struck again")

    pool, has_ended = Threads(1), threading.Event()
    token = pool.submit(body, lambda _value, _failure: has_ended.set())
    assert is_inside.wait(60)
    is_inside.clear()
    assert pool.interrupt(token, SoftLimitExceeded)
    may_leave.set()
    assert is_inside.wait(60)
    assert pool.interrupt(token, SoftLimitExceeded)
    assert has_ended.wait(60)
    pool.close(grace=timedelta(seconds=1))

    assert seen == ["whole", "struck afterwards", "struck again"]


def test_a_process_forked_inside_the_transaction_cannot_speak_on_it(app: Duly) -> None:
    @app.task(delivery="exactly_once", keep_result="1h")
    def fork(run: Run) -> int:
        run.connection.execute("select 1")
        child = os.fork()
        if child == 0:
            try:
                run.connection.execute("select 2")
            except Exception as error:
                os._exit(3 if "forked" in str(error) else 4)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        run.connection.execute("select 3")
        return code

    job = fork.enqueue()
    run_all(app)

    assert (job.state(), job.result()) == ("done", 3)


def test_a_connection_is_kept_for_the_next_body(exact_app: Duly, effects: Effects) -> None:
    seen: list[int] = []

    @exact_app.task(delivery="exactly_once")
    def charge(run: Run, amount: int) -> None:
        connection = run.connection
        effects.add(connection, amount)
        seen.append(id(connection))

    for amount in range(3):
        charge.enqueue(amount)
    run_all(exact_app, concurrency=1)

    assert (len(seen), len(set(seen))) == (3, 1)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_connection_that_the_server_ended_meanwhile_is_not_lent_again(
    app: Duly, *, is_async: bool
) -> None:
    pids: list[int] = []

    @app.task(delivery="exactly_once", name="look")
    def look(run: Run) -> None:
        pids.append(run.connection.execute(OWN_PID).fetchone()[0])

    @app.task(delivery="exactly_once", name="look_on_loop")
    async def look_on_loop(run: Run) -> None:
        pids.append((await (await run.connection.execute(OWN_PID)).fetchone())[0])

    task = look_on_loop if is_async else look
    async with app.worker(concurrency=1):
        await app.jobs.await_all([await task.aenqueue()], timeout=60)
        await asyncio.to_thread(end_backend, pids[0])
        job = await task.aenqueue()
        await app.jobs.await_all([job], timeout=60)

    assert events(app.jobs.get(job)) == ["done"]
    assert len(set(pids)) == 2


OWN_PID = "select pg_backend_pid()"


def end_backend(pid: int) -> None:
    with psycopg.connect(postgres_url(), autocommit=True) as admin:
        admin.execute("select pg_terminate_backend(%s)", (pid,))
        asked = "select 1 from pg_stat_activity where pid = %s"
        until(lambda: not admin.execute(asked, (pid,)).fetchall())


def test_bodies_that_begin_at_once_and_end_in_every_way_leave_no_connection(app: Duly) -> None:
    gate = Gate()

    @app.task(delivery="exactly_once")
    def charge(run: Run, way: int) -> None:
        gate.wait_here()
        run.connection.execute("select 1")
        if way == 1:
            raise ValueError(way)
        if way == 2:
            run.connection.pgconn.finish()
        if way == 3:
            run.defer("1h")

    jobs = [charge.enqueue(way) for way in range(4)]
    with working(app):
        for _ in jobs:
            gate.reached()
        gate.open()
        for job in jobs[:2]:
            ended(app, job)
    # the fixture counts what is left
