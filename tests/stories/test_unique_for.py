"""The duplicate guard, and enqueueing inside the caller's own transaction."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Generator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.stories.arrange import ended, run_all, working
from tests.stories.conftest import OPTIONS

from duly import Decision, Duly, Handle, State
from duly.errors import StoreUnavailable
from duly.testing import VirtualClock

KEY = "lease:42"


class Noting:
    """A task that notes the words it ran with."""

    def __init__(self, app: Duly, **options: Any) -> None:
        self.words: list[str] = []

        @app.task(**options)
        def note(word: str) -> None:
            self.words.append(word)

        self.task = note

    def ask(self, word: str, **wishes: Any) -> Handle[None]:
        return self.task.using(key=KEY, **wishes).enqueue(word)


def suppressed(app: Duly) -> int:
    return app.store.run(app.store.census()).suppressed


# --- the window ---------------------------------------------------------------------------------


def test_within_the_window_further_requests_are_kept_back_and_counted(
    timed_app: Duly, clock: VirtualClock
) -> None:
    note = Noting(timed_app)

    first = note.ask("a", unique_for="2m")
    waiting = note.ask("b", unique_for="2m")
    run_all(timed_app)
    clock.advance("1m 59s")
    done = note.ask("c", unique_for="2m")
    run_all(timed_app)

    assert [first.decision, waiting.decision, done.decision] == ["created", "kept", "kept"]
    assert {waiting.id, done.id} == {first.id}
    assert (note.words, suppressed(timed_app)) == (["a"], 2)


def test_after_the_window_a_request_is_taken_again(timed_app: Duly, clock: VirtualClock) -> None:
    note = Noting(timed_app, unique_for="2m")
    note.ask("a")
    run_all(timed_app)

    clock.advance("2m")
    again = note.ask("b")
    run_all(timed_app)

    assert again.decision is Decision.CREATED
    assert note.words == ["a", "b"]


def test_the_window_of_one_key_is_not_that_of_another(app: Duly) -> None:
    note = Noting(app, unique_for="2m")

    note.ask("a")
    other = note.task.using(key="lease:43").enqueue("b")

    assert other.decision is Decision.CREATED


def test_a_request_for_the_task_itself_needs_a_key_when_the_declaration_has_a_window(app: Duly) -> None:
    note = Noting(app, unique_for="2m")

    with pytest.raises(ValueError, match="key='lease:42'"):
        note.task.enqueue("a")


def test_trailing_leaves_one_job_at_the_end_of_the_window_with_the_latest_arguments(
    timed_app: Duly, clock: VirtualClock
) -> None:
    note = Noting(timed_app, unique_for="2m", trailing=True)
    first = note.ask("a")
    run_all(timed_app)

    clock.advance("30s")
    second, third = note.ask("b"), note.ask("c")
    run_all(timed_app)
    in_the_window = list(note.words)
    clock.advance("1m 30s")
    run_all(timed_app)

    assert (second.id, second.decision) != (first.id, "kept")
    assert third.id == second.id
    assert timed_app.jobs.get(second).due == timed_app.jobs.get(first).due + timedelta(minutes=2)
    assert (in_the_window, note.words) == (["a"], ["a", "c"])


def test_of_many_simultaneous_requests_exactly_one_is_taken(app: Duly) -> None:
    note = Noting(app, unique_for="2m")
    decisions: list[Decision] = []
    start = threading.Barrier(12)

    def ask(n: int) -> None:
        start.wait()
        decisions.append(note.ask(str(n)).decision)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run_all(app)

    assert sorted(decisions) == [Decision.CREATED] + [Decision.KEPT] * 11
    assert len(note.words) == 1


# --- in the caller's transaction ----------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def shop(file: Path) -> Generator[Duly, None, None]:
    """An application whose store is the database that the caller writes to."""
    app = Duly(f"sqlite:///{file}", **OPTIONS)
    app.open()
    yield app
    app.close()


@pytest.fixture
def connection(shop: Duly, file: Path) -> Generator[sqlite3.Connection, None, None]:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("create table orders (id integer primary key)")
        connection.commit()
        yield connection


def orders(connection: sqlite3.Connection) -> int:
    (count,) = connection.execute("select count(*) from orders").fetchone()
    return int(count)


def test_a_job_and_the_row_it_is_about_commit_together(shop: Duly, connection: sqlite3.Connection) -> None:
    note = Noting(shop)

    with working(shop):
        connection.execute("insert into orders values (1)")
        handle = note.task.using(connection=connection).enqueue("order 1")
        before = shop.jobs.count()
        connection.commit()
        job = ended(shop, handle)

    assert before == 0
    assert (handle.decision, job.state, note.words) == (Decision.CREATED, State.DONE, ["order 1"])


@pytest.mark.parametrize("key", [None, KEY], ids=["without a key", "with a key"])
def test_a_job_vanishes_with_the_transaction_that_is_rolled_back(
    shop: Duly, connection: sqlite3.Connection, key: str | None
) -> None:
    note = Noting(shop)

    connection.execute("insert into orders values (1)")
    note.task.using(connection=connection, key=key).enqueue("order 1")
    connection.rollback()
    run_all(shop)

    assert (shop.jobs.count(), orders(connection), note.words) == (0, 0, [])


def test_a_keyed_request_is_pending_until_the_engine_takes_it_in(
    shop: Duly, connection: sqlite3.Connection
) -> None:
    note = Noting(shop)
    waits = note.ask("old", run_after="1h")

    handle = note.ask("new", connection=connection)
    connection.commit()
    run_all(shop)

    assert handle.decision is Decision.PENDING
    assert note.words == ["new"]
    assert waits.state() is State.DONE  # one key, one job, earliest time, latest arguments


def test_replace_in_a_transaction_supersedes_after_the_commit(
    shop: Duly, connection: sqlite3.Connection
) -> None:
    note = Noting(shop)
    old = note.ask("old", run_after="1h")

    new = note.ask("new", connection=connection, replace=True)
    still = old.state()
    connection.commit()
    run_all(shop)

    assert (still, old.state(), new.state()) == (State.WAITING, State.CANCELLED, State.DONE)
    assert note.words == ["new"]


def test_a_rolled_back_transaction_leaves_no_guard_behind(shop: Duly, connection: sqlite3.Connection) -> None:
    note = Noting(shop, unique_for="2m")

    note.ask("lost", connection=connection)
    connection.rollback()
    handle = note.ask("kept")
    run_all(shop)

    assert handle.decision is Decision.CREATED
    assert note.words == ["kept"]


def test_a_guard_counts_from_the_request_also_when_it_is_taken_in_later(
    shop: Duly, connection: sqlite3.Connection
) -> None:
    note = Noting(shop, unique_for="2m")

    first = note.ask("a", connection=connection)
    second = note.ask("b", connection=connection)
    connection.commit()
    run_all(shop)

    assert (first.decision, second.decision) == (Decision.PENDING, Decision.PENDING)
    assert (note.words, suppressed(shop)) == (["a"], 1)


def test_a_failed_enqueue_leaves_the_callers_transaction_usable(
    shop: Duly, connection: sqlite3.Connection
) -> None:
    note = Noting(shop)
    connection.execute("insert into orders values (1)")

    with pytest.raises(ValueError, match="256,000"):
        note.task.using(connection=connection).enqueue("x" * 300_000)
    connection.commit()

    assert (orders(connection), shop.jobs.count()) == (1, 0)


def test_a_connection_to_another_database_is_refused(shop: Duly, tmp_path: Path) -> None:
    note = Noting(shop)

    with (
        closing(sqlite3.connect(tmp_path / "other.db")) as other,
        pytest.raises(ValueError, match=r"other\.db"),
    ):
        note.task.using(connection=other).enqueue("a")

    assert shop.jobs.count() == 0


def test_a_caller_that_began_by_reading_is_told_the_remedy(
    shop: Duly, connection: sqlite3.Connection, file: Path
) -> None:
    note = Noting(shop)
    connection.execute("begin")
    assert orders(connection) == 0
    note.task.enqueue("somebody else's")

    with pytest.raises(StoreUnavailable, match="BEGIN IMMEDIATE"):
        note.task.using(connection=connection).enqueue("a")


async def test_the_async_twin_joins_the_transaction_too(shop: Duly, connection: sqlite3.Connection) -> None:
    note = Noting(shop)

    await note.task.using(connection=connection).aenqueue("lost")
    connection.rollback()
    await note.task.using(connection=connection).aenqueue("kept")
    connection.commit()
    async with shop.worker(burst=True):
        pass

    assert await shop.jobs.acount(state="waiting") + len(note.words) == 1
