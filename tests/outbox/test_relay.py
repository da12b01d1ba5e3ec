"""From a commit in the user's database to a run on Redis: once, in order, through faults on either side."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from tests.outbox.conftest import Database, OpenApp
from tests.servers import PostgresServer, postgres_url
from tests.servers_redis import RedisServer, private_server
from tests.stories.arrange import ended, run_all, several_working, until, working

from duly import Duly, Handle, Task
from duly.errors import UnknownJob, WrongConnection
from duly.job import Decision, State
from duly.stores.contract import Parcel
from duly.testing import VirtualClock
from duly.worker.relay import Relay, storable

KEY = "order:17"

Send = Task[[int], None, None]


class Post:
    """A task that notes what it was sent, on each application given."""

    def __init__(self, *apps: Duly, **options: Any) -> None:
        self.sent: list[int] = []
        lock = threading.Lock()

        def send(number: int) -> None:
            with lock:
                self.sent.append(number)

        tasks: list[Send] = [app.task(name="send", **options)(send) for app in apps]
        self.task = tasks[0]

    def enqueue(self, connection: Any, number: int, **wishes: Any) -> Handle[None]:
        return self.task.using(connection=connection, **wishes).enqueue(number)


def relay_of(app: Duly) -> Relay:
    def fail(error: BaseException) -> None:
        raise error

    made = Relay.of(app, fail)
    assert made is not None
    return made


def backlog(app: Duly) -> int:
    assert app.outbox is not None
    return app.outbox.run(app.outbox.backlog()).waiting


# --- with the user's transaction ------------------------------------------------------------------


def test_a_job_runs_once_after_the_commit(app: Duly, connection: Any) -> None:
    post = Post(app)
    with working(app):
        connection.execute("insert into orders values (1)")
        handle = post.enqueue(connection, 1)
        decision = handle.decision
        connection.commit()

        until(lambda: handle.state() is State.DONE)

    assert (decision, app.jobs.get(handle).id) == (Decision.PENDING, handle.id)
    assert (post.sent, backlog(app)) == ([1], 0)


def test_a_rollback_leaves_neither_row_nor_job(app: Duly, connection: Any, database: Database) -> None:
    post = Post(app)
    connection.execute("insert into orders values (1)")
    handle = post.enqueue(connection, 1)
    connection.rollback()

    run_all(app)

    assert (post.sent, app.jobs.count(), database.execute("select id from orders")) == ([], 0, [])
    with pytest.raises(UnknownJob):
        handle.state()


def test_only_requests_with_a_connection_go_through_the_outbox(app: Duly) -> None:
    post = Post(app)

    handle = post.task.enqueue(1)

    assert (handle.decision, backlog(app)) == (Decision.CREATED, 0)


def test_a_connection_to_another_database_is_refused(app: Duly) -> None:
    post = Post(app)

    with pytest.raises(WrongConnection):
        post.enqueue(object(), 1)

    assert backlog(app) == 0


async def test_the_async_twin_joins_the_transaction_too(app: Duly, database: Database) -> None:
    post = Post(app)
    if database.url.startswith("sqlite"):
        with database.connect() as connection:
            handle = await post.task.using(connection=connection).aenqueue(1)
    else:
        async with await psycopg.AsyncConnection.connect(database.url) as there:
            handle = await post.task.using(connection=there).aenqueue(1)

    async with app.worker():
        state = await _until_done(handle)

    assert (state, post.sent) == (State.DONE, [1])


async def _until_done(handle: Handle[None]) -> State:
    async with asyncio.timeout(40):
        while (state := await handle.astate()) not in (State.DONE, State.FAILED):
            await asyncio.sleep(0.01)
    return state


OTHER_STORES: Final[dict[str, Callable[[Path], str]]] = {
    "memory": lambda _: "memory://",
    "sqlite": lambda folder: f"sqlite:///{folder / 'jobs.db'}",
    "postgres": lambda _: postgres_url(),
}


@pytest.mark.parametrize("store", OTHER_STORES)
def test_any_store_takes_from_an_outbox(
    open_app: OpenApp, connection: Any, database: Database, tmp_path: Path, store: str
) -> None:
    app = open_app(OTHER_STORES[store](tmp_path))
    app.open()
    post = Post(app)
    post.enqueue(connection, 1, key=KEY)
    post.enqueue(connection, 2, key=KEY, replace=True)
    connection.commit()

    run_all(app)

    assert (post.sent, backlog(app)) == ([2], 0)
    if store == "postgres":
        app.close()
        with psycopg.connect(postgres_url(), autocommit=True) as there:
            there.execute(f"drop schema {database.namespace} cascade".encode())


def test_a_burst_takes_what_is_in_the_outbox_along(app: Duly, connection: Any) -> None:
    post = Post(app)
    for number in range(3):
        post.enqueue(connection, number)
    connection.commit()

    run_all(app)

    assert sorted(post.sent) == [0, 1, 2]


def test_a_commit_that_sqlalchemy_tells_of_is_relayed_without_waiting_for_a_poll(
    open_app: OpenApp, database: Database
) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    orm = pytest.importorskip("sqlalchemy.orm")
    app = open_app(poll="60s")
    app.open()
    post = Post(app)
    engine = sqlalchemy.create_engine(database.url.replace("postgresql://", "postgresql+psycopg://"))
    with working(app):
        until(lambda: any(thread.name == "duly-relay" for thread in threading.enumerate()))
        with orm.Session(engine) as session, session.begin():
            handle = post.enqueue(session, 1)

        until(lambda: post.sent == [1])

    assert ended(app, handle).state is State.DONE
    engine.dispose()


# --- what a handle says meanwhile -----------------------------------------------------------------


def test_a_handle_finds_its_job_on_the_way_and_in_the_store(app: Duly, connection: Any) -> None:
    post = Post(app)
    handle = post.enqueue(connection, 1)
    connection.commit()
    on_its_way = handle.state()

    run_all(app)

    assert (on_its_way, handle.state()) == (State.WAITING, State.DONE)


def test_a_result_can_be_waited_for_from_the_commit_on(app: Duly, connection: Any) -> None:
    @app.task(keep_result="1h")
    def double(number: int) -> int:
        return 2 * number

    handle = double.using(connection=connection).enqueue(21)
    connection.commit()
    with working(app):
        assert handle.result(timeout="40s") == 42


def test_a_job_can_be_cancelled_on_its_way(app: Duly, connection: Any) -> None:
    post = Post(app)
    handle = post.enqueue(connection, 1)
    connection.commit()

    assert handle.cancel()

    run_all(app)
    assert (post.sent, backlog(app)) == ([], 0)


def test_a_wait_counts_from_the_request_and_not_from_the_relay(
    open_app: OpenApp, connection: Any, clock: VirtualClock
) -> None:
    app = open_app(clock=clock)
    app.open()
    handle = Post(app).enqueue(connection, 1, run_after="1h")
    connection.commit()
    asked = clock.now()
    clock.advance("10m")

    relay_of(app).carry()

    due = app.jobs.get(handle).due
    assert asked + timedelta(hours=1) <= due <= asked + timedelta(hours=1, seconds=2)


# --- keys and order -------------------------------------------------------------------------------


def test_two_requests_for_a_key_become_one_job_with_the_latest_arguments(app: Duly, connection: Any) -> None:
    post = Post(app)
    for number in (1, 2):
        post.enqueue(connection, number, key=KEY)
        connection.commit()

    run_all(app)

    assert post.sent == [2]


# A file has one writer at a time: transactions commit in the order of their writes.
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_of_two_replaces_the_one_that_commits_last_stands(
    app: Duly, connection: Any, database: Database
) -> None:
    post = Post(app)
    relay = relay_of(app)
    post.enqueue(connection, 1, key=KEY, replace=True)
    with database.connect() as other:
        post.enqueue(other, 2, key=KEY, replace=True)
    relay.carry()
    connection.commit()
    relay.carry()

    run_all(app)

    assert post.sent == [1]


def test_a_late_relay_never_undoes_a_newer_replace(
    open_app: OpenApp, connection: Any, clock: VirtualClock
) -> None:
    app = open_app(clock=clock, lease="30s")
    app.open()
    assert app.outbox is not None
    post = Post(app)
    post.enqueue(connection, 1, key=KEY, replace=True)
    connection.commit()
    late = app.outbox.run(app.outbox.lease(timedelta(seconds=30), 10))
    clock.advance("30s")
    post.enqueue(connection, 2, key=KEY, replace=True)
    connection.commit()
    relay_of(app).carry()
    clock.advance("23h")

    brought = [Parcel(slip.read(), slip.number, slip.age) for slip in late.slips]
    placed = app.store.run(app.store.deliver(late.outbox, brought))

    [job] = app.jobs.list(key=KEY, state="waiting")
    assert [answer.decision for answer in placed] == [Decision.KEPT]
    assert job.arguments.startswith("[[2]")


def test_a_request_that_is_refused_as_late_is_delivered_in_its_turn(
    open_app: OpenApp, connection: Any, clock: VirtualClock
) -> None:
    app = open_app(clock=clock, lease="30s")
    app.open()
    assert app.outbox is not None
    post = Post(app)
    post.enqueue(connection, 1, key=KEY, replace=True)
    connection.commit()
    outbox, [first] = app.outbox.run(app.outbox.lease(timedelta(seconds=30), 10))
    by_a_successor = Parcel(first.read(), first.number + 10**9)
    app.store.run(app.store.deliver(outbox, [by_a_successor]))
    app.outbox.run(app.outbox.clear([first]))
    post.enqueue(connection, 2, key=KEY, replace=True)
    connection.commit()

    refused = relay_of(app).carry()
    left = backlog(app)
    clock.advance("1h")
    delivered = relay_of(app).carry()

    [job] = app.jobs.list(key=KEY, state="waiting")
    assert (refused, left, delivered, backlog(app)) == (0, 1, 1, 0)
    assert job.arguments.startswith("[[2]")


def test_a_request_that_was_set_aside_and_passed_is_dropped(
    open_app: OpenApp, connection: Any, clock: VirtualClock
) -> None:
    app = open_app(clock=clock, lease="30s")
    app.open()
    assert app.outbox is not None
    post = Post(app)
    post.enqueue(connection, 1, key=KEY, replace=True)
    connection.commit()
    _, [slip] = app.outbox.run(app.outbox.lease(timedelta(seconds=30), 10))
    app.outbox.run(app.outbox.set_aside(slip, "unreadable", timedelta(minutes=10)))
    post.enqueue(connection, 2, key=KEY, replace=True)
    connection.commit()
    relay_of(app).carry()
    clock.advance("10m")

    relay_of(app).carry()

    [job] = app.jobs.list(key=KEY, state="waiting")
    assert backlog(app) == 0
    assert job.arguments.startswith("[[2]")


def test_a_cancel_is_not_acknowledged_while_a_late_relay_could_undo_it(
    open_app: OpenApp, connection: Any, clock: VirtualClock
) -> None:
    app = open_app(clock=clock, lease="30s")
    app.open()
    assert app.outbox is not None
    handle = Post(app).enqueue(connection, 1)
    connection.commit()
    late = app.outbox.run(app.outbox.lease(timedelta(seconds=30), 10))
    clock.advance("30s")

    on_its_way = handle.cancel()
    app.store.run(app.store.deliver(late.outbox, [Parcel(slip.read(), slip.number) for slip in late.slips]))
    arrived = handle.cancel()

    assert (on_its_way, arrived) == (False, True)
    relay_of(app).carry()
    assert (handle.state(), backlog(app)) == (State.CANCELLED, 0)


def test_a_reason_that_no_database_would_take_is_made_storable(app: Duly, connection: Any) -> None:
    assert app.outbox is not None
    Post(app).enqueue(connection, 1)
    connection.commit()
    _, [slip] = app.outbox.run(app.outbox.lease(timedelta(seconds=30), 10))

    reason = storable("ValueError: half \ud800 of it" + 100_000 * "x")
    app.outbox.run(app.outbox.set_aside(slip, reason, timedelta(minutes=1)))

    found = app.outbox.run(app.outbox.backlog())
    assert found.reason.startswith(r"ValueError: half \ud800 of it")
    assert len(found.reason) < 2000


def test_a_relay_that_slept_past_its_lease_brings_nothing(app: Duly, connection: Any) -> None:
    Post(app).enqueue(connection, 1)
    connection.commit()
    sleeper = relay_of(app)
    sleeper.lease = timedelta(0)

    assert sleeper.carry() == 0

    assert (app.jobs.count(), backlog(app)) == (0, 1)


def test_racing_relays_bring_each_job_once(open_app: OpenApp, connection: Any) -> None:
    apps = [open_app(), open_app()]
    post = Post(*apps)
    apps[0].open()
    for number in range(200):
        post.enqueue(connection, number)
        if number % 20 == 19:
            connection.commit()

    with several_working(*apps):
        until(lambda: len(post.sent) >= 200, timeout=40)
        until(lambda: backlog(apps[0]) == 0)

    assert sorted(post.sent) == list(range(200))
    assert apps[0].jobs.count() == 200


# --- what cannot be delivered ---------------------------------------------------------------------


def test_a_request_that_cannot_be_read_is_set_aside_and_blocks_nobody(
    app: Duly, connection: Any, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    post = Post(app)
    bad = post.enqueue(connection, 1, key=KEY)
    connection.commit()
    database.execute(f"update {database.slips} set request = '{{\"id\": 7'")
    post.enqueue(connection, 2, key=KEY)
    connection.commit()

    run_all(app)

    assert app.outbox is not None
    left = app.outbox.run(app.outbox.backlog())
    assert (post.sent, left.waiting, left.aside) == ([2], 1, 1)
    assert "JSONDecodeError" in left.reason
    [line] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert bad.id in line.getMessage()


def test_a_promise_that_this_redis_cannot_keep_is_set_aside_alone(
    open_app: OpenApp, connection: Any, tmp_path: Path
) -> None:
    with private_server(tmp_path, "--appendonly", "no") as server:
        app = open_app(server.url)
        good, bad = Post(app), app.task(name="once", delivery="at_most_once")(lambda: None)
        for number in (1, 2):
            good.enqueue(connection, number)
        bad.using(connection=connection).enqueue()
        good.enqueue(connection, 3)
        connection.commit()

        moved = relay_of(app).carry()

        assert app.outbox is not None
        left = app.outbox.run(app.outbox.backlog())
        assert (moved, app.jobs.count(task="send")) == (4, 3)
        assert (left.waiting, left.aside) == (1, 1)
        assert "appendfsync" in left.reason


# --- outages --------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Generator[RedisServer]:
    with private_server(tmp_path) as made:
        yield made


def test_while_redis_is_away_users_commit_and_afterwards_their_jobs_run(
    open_app: OpenApp, connection: Any, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    app = open_app(server.url)
    app.open()
    post = Post(app)
    server.stop()
    post.enqueue(connection, 1)
    connection.commit()
    relay = relay_of(app)
    relay.start()
    until(lambda: "the store of the outbox is away" in caplog.text)
    server.start()

    with working(app):
        until(lambda: post.sent == [1])
    relay.close()

    assert backlog(app) == 0
    assert app.jobs.count() == 1


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_an_outbox_that_is_held_does_not_keep_the_worker_from_redis(
    app: Duly, connection: Any, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    post = Post(app)
    holder = database.connect()
    holder.execute("begin exclusive")
    with working(app):
        direct = ended(app, post.task.enqueue(1))
        until(lambda: "the outbox is away" in caplog.text, timeout=40)
        holder.rollback()
        post.enqueue(connection, 2)
        connection.commit()
        until(lambda: 2 in post.sent, timeout=40)
    holder.close()

    assert direct.state is State.DONE
    assert caplog.text.count("the outbox is away") <= 3


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_an_outbox_whose_server_stops_does_not_keep_the_worker_from_redis(
    own_server: PostgresServer, open_app: OpenApp, caplog: pytest.LogCaptureFixture
) -> None:
    app = open_app(outbox=own_server.url)
    app.open()
    post = Post(app)
    with working(app):
        own_server.stop()
        until(lambda: "the outbox is away" in caplog.text)
        direct = ended(app, post.task.enqueue(1))
        own_server.start()
        with psycopg.connect(own_server.url) as connection:
            post.enqueue(connection, 2)
        until(lambda: 2 in post.sent, timeout=40)

    assert direct.state is State.DONE
    assert "the outbox is back" in caplog.text
