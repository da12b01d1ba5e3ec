"""On a caller's connection: visible if and only if they commit, and nothing of theirs is touched."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.sqlite.notes import MIGRATIONS, add, add_then_raise, ask, ruin, seen_from_outside, texts

from duly.errors import StoreBusy, StoreUnavailable, WrongConnection
from duly.stores.sqlite.driver import Driver


@pytest.fixture
def explicit(driver: Driver, path: str) -> Iterator[sqlite3.Connection]:
    """A connection on which the caller says BEGIN and COMMIT, as Django's are."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


@pytest.fixture
def implicit(driver: Driver, path: str) -> Iterator[sqlite3.Connection]:
    """A connection as the standard library opens it: transactions begin by themselves."""
    with closing(sqlite3.connect(path)) as connection:
        yield connection


def test_it_appears_with_the_callers_commit(driver: Driver, explicit: sqlite3.Connection, path: str) -> None:
    explicit.execute("begin immediate")

    assert driver.run_on(explicit, add("one")) == 1

    assert seen_from_outside(path) == []
    explicit.execute("commit")
    assert seen_from_outside(path) == ["one"]


def test_it_vanishes_with_the_callers_rollback(
    driver: Driver, explicit: sqlite3.Connection, path: str
) -> None:
    explicit.execute("begin immediate")
    driver.run_on(explicit, add("one"))

    explicit.execute("rollback")

    assert seen_from_outside(path) == []


def test_it_joins_a_savepoint_of_the_caller(driver: Driver, explicit: sqlite3.Connection, path: str) -> None:
    explicit.execute("begin immediate")
    explicit.execute("savepoint theirs")
    driver.run_on(explicit, add("undone"))
    explicit.execute("rollback to theirs")
    driver.run_on(explicit, add("kept"))

    explicit.execute("commit")

    assert seen_from_outside(path) == ["kept"]


def test_without_a_transaction_an_autocommitting_connection_commits_at_once(
    driver: Driver, explicit: sqlite3.Connection, path: str
) -> None:
    driver.run_on(explicit, add("one"))

    assert seen_from_outside(path) == ["one"]
    assert not explicit.in_transaction


def test_on_an_ordinary_connection_it_begins_a_transaction_for_the_caller_to_end(
    driver: Driver, implicit: sqlite3.Connection, path: str
) -> None:
    driver.run_on(implicit, add("one"))

    assert implicit.in_transaction
    assert seen_from_outside(path) == []
    implicit.commit()
    assert seen_from_outside(path) == ["one"]


def test_leaving_a_with_block_by_an_error_takes_the_job_along(
    driver: Driver, implicit: sqlite3.Connection, path: str
) -> None:
    def save() -> None:
        with implicit:
            driver.run_on(implicit, add("one"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        save()

    assert seen_from_outside(path) == []


@pytest.mark.parametrize("fails", [add_then_raise("bad"), ask("insert into duly_note values (1, 'one')")])
def test_an_error_of_ours_leaves_what_the_caller_has_written(
    driver: Driver, explicit: sqlite3.Connection, path: str, fails: Any
) -> None:
    explicit.execute("begin immediate")
    explicit.execute("insert into duly_note values (1, 'theirs')")

    with pytest.raises(Exception, match=r"bad|UNIQUE"):
        driver.run_on(explicit, fails)

    explicit.execute("commit")
    assert seen_from_outside(path) == ["theirs"]


def test_an_error_of_ours_leaves_no_transaction_where_there_was_none(
    driver: Driver, implicit: sqlite3.Connection
) -> None:
    with pytest.raises(ValueError, match="bad"):
        driver.run_on(implicit, add_then_raise("bad"))

    assert not implicit.in_transaction


def test_a_transaction_that_sqlite_ended_is_not_ended_again(
    driver: Driver, explicit: sqlite3.Connection
) -> None:
    explicit.execute("begin immediate")

    with pytest.raises(Exception, match="UNIQUE"):
        driver.run_on(explicit, ruin())

    assert not explicit.in_transaction


def test_reading_on_a_callers_connection_sees_what_they_have_not_committed(
    driver: Driver, explicit: sqlite3.Connection
) -> None:
    explicit.execute("begin immediate")
    explicit.execute("insert into duly_note values (1, 'theirs')")

    assert driver.run_on(explicit, texts()) == ["theirs"]
    explicit.execute("rollback")


async def test_the_async_twin_does_the_same(driver: Driver, explicit: sqlite3.Connection, path: str) -> None:
    explicit.execute("begin immediate")
    assert await driver.arun_on(explicit, add("one")) == 1
    explicit.execute("commit")

    assert seen_from_outside(path) == ["one"]


def test_the_callers_factories_neither_disturb_nor_change(
    driver: Driver, explicit: sqlite3.Connection
) -> None:
    explicit.row_factory = sqlite3.Row
    explicit.text_factory = bytes

    driver.run_on(explicit, add("one"))

    assert driver.run_on(explicit, texts()) == ["one"]
    assert explicit.row_factory is sqlite3.Row
    assert explicit.text_factory is bytes


def test_on_an_affected_build_the_callers_connection_stops_checkpointing(
    driver: Driver, explicit: sqlite3.Connection
) -> None:
    driver.run_on(explicit, add("one"))

    is_affected = driver.describe()["wal-reset race"] == "yes"
    assert explicit.execute("pragma wal_autocheckpoint").fetchone() == (0 if is_affected else 1000,)


def test_a_transaction_that_began_by_reading_is_told_to_begin_otherwise(
    driver: Driver, explicit: sqlite3.Connection
) -> None:
    explicit.execute("begin")
    explicit.execute("select * from duly_note").fetchall()
    driver.run(add("meanwhile"))

    with pytest.raises(StoreUnavailable, match="BEGIN IMMEDIATE") as caught:
        driver.run_on(explicit, add("one"))

    assert "begun by reading" in str(caught.value)
    assert not isinstance(caught.value, StoreBusy)
    explicit.execute("rollback")


def test_a_caller_behind_another_writer_is_told_to_wait_for_its_turn(driver: Driver, path: str) -> None:
    with closing(sqlite3.connect(path, timeout=0)) as blocked, closing(sqlite3.connect(path)) as writer:
        writer.execute("begin immediate")

        with pytest.raises(StoreBusy, match="another connection is writing"):
            driver.run_on(blocked, add("one"))

        writer.rollback()


def test_a_connection_to_another_file_is_refused_with_both_names(driver: Driver, path: str) -> None:
    with closing(sqlite3.connect(path + ".other")) as other:
        other.execute("create table a (b)")

        with pytest.raises(WrongConnection) as caught:
            driver.run_on(other, add("one"))

    assert path in str(caught.value)
    assert path + ".other" in str(caught.value)


def test_a_connection_to_memory_is_refused(driver: Driver) -> None:
    with closing(sqlite3.connect(":memory:")) as other, pytest.raises(WrongConnection, match="in memory"):
        driver.run_on(other, add("one"))


def test_a_link_to_the_file_is_the_file(driver: Driver, path: str) -> None:
    os.symlink(path, path + ".link")
    with closing(sqlite3.connect(path + ".link", isolation_level=None)) as linked:
        assert driver.run_on(linked, add("one")) == 1


def test_something_else_than_a_connection_is_refused_by_name(driver: Driver) -> None:
    with pytest.raises(WrongConnection, match=r"42 \(builtins.int\) holds no connection"):
        driver.run_on(42, add("one"))


def test_a_connection_of_another_thread_is_refused(driver: Driver, explicit: sqlite3.Connection) -> None:
    caught: list[BaseException] = []

    def use() -> None:
        try:
            driver.run_on(explicit, add("one"))
        except WrongConnection as error:
            caught.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()

    assert "thread" in str(caught[0])


def test_a_closed_connection_is_refused(driver: Driver, path: str) -> None:
    connection = sqlite3.connect(path)
    connection.close()

    with pytest.raises(WrongConnection, match="closed"):
        driver.run_on(connection, add("one"))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="connections have no autocommit attribute yet")
@pytest.mark.parametrize(("autocommit", "visible"), [(True, ["one"]), (False, [])])
def test_the_autocommit_attribute_says_who_commits(
    driver: Driver, path: str, autocommit: bool, visible: list[str]
) -> None:
    options: dict[str, Any] = {"autocommit": autocommit}
    with closing(sqlite3.connect(path, **options)) as connection:
        driver.run_on(connection, add("one"))

        assert seen_from_outside(path) == visible
        connection.rollback()


class PooledLike:
    """What SQLAlchemy's pool lends."""

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.driver_connection = raw


def test_what_a_pool_lends_is_a_connection_too(
    driver: Driver, explicit: sqlite3.Connection, path: str
) -> None:
    explicit.execute("begin immediate")

    driver.run_on(PooledLike(explicit), add("one"))

    assert seen_from_outside(path) == []
    explicit.execute("commit")
    assert seen_from_outside(path) == ["one"]


def test_a_first_use_inside_a_transaction_says_to_open_the_store_before(path: str) -> None:
    with closing(sqlite3.connect(path)) as application:
        application.execute("create table orders (id integer primary key)")
        application.execute("insert into orders values (1)")
        late = Driver(f"sqlite:///{path}", migrations=MIGRATIONS, patience=timedelta(milliseconds=50))

        with pytest.raises(StoreBusy, match=r"call open\(\) before it begins"):
            late.run_on(application, add("one"))
