"""Which journal a file gets, by version and owner; when and how its log is written back."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from itertools import count

import pytest
from tests.unit.sqlite.conftest import OpenDriver
from tests.unit.sqlite.notes import add, ask, texts

from duly.errors import StoreUnavailable
from duly.stores.sqlite import journal as module
from duly.stores.sqlite.address import Mode
from duly.stores.sqlite.driver import Driver
from duly.stores.sqlite.journal import Checkpointer, Version, choose_journal, has_reset_race

AFFECTED: Version = (3, 40, 1)
FIXED: Version = (3, 51, 3)


@pytest.mark.parametrize(
    "version", [(3, 7, 0), (3, 40, 1), (3, 44, 5), (3, 45, 0), (3, 49, 2), (3, 50, 6), (3, 51, 0), (3, 51, 2)]
)
def test_these_builds_may_lose_writes_in_wal_mode(version: Version) -> None:
    assert has_reset_race(version)


@pytest.mark.parametrize(
    "version", [(3, 6, 23), (3, 44, 6), (3, 44, 9), (3, 50, 7), (3, 51, 3), (3, 52, 0), (4, 0, 0)]
)
def test_these_builds_do_not(version: Version) -> None:
    assert not has_reset_race(version)


@pytest.mark.parametrize("version", [AFFECTED, FIXED])
def test_our_own_file_is_in_wal_mode_on_every_build(version: Version) -> None:
    chosen = choose_journal(version, owns_file=True, wanted=None)

    assert chosen.mode is Mode.WAL
    assert not chosen.is_exposed


@pytest.mark.parametrize("version", [AFFECTED, FIXED])
def test_an_applications_file_keeps_its_journal(version: Version) -> None:
    assert choose_journal(version, owns_file=False, wanted=None).mode is None


@pytest.mark.parametrize("owns_file", [True, False])
@pytest.mark.parametrize("wanted", list(Mode))
def test_a_journal_that_is_asked_for_is_used(owns_file: bool, wanted: Mode) -> None:
    assert choose_journal(AFFECTED, owns_file=owns_file, wanted=wanted).mode is wanted


def test_callers_are_kept_from_checkpointing_our_file_only_where_it_is_dangerous() -> None:
    assert choose_journal(AFFECTED, owns_file=True, wanted=None).mutes_callers
    assert not choose_journal(FIXED, owns_file=True, wanted=None).mutes_callers
    assert not choose_journal(AFFECTED, owns_file=False, wanted=None).mutes_callers


def test_the_owner_of_a_shared_wal_file_on_an_affected_build_is_told_both_remedies() -> None:
    warning = choose_journal(AFFECTED, owns_file=False, wanted=None).warning("shop.db", Mode.WAL)

    assert warning is not None
    assert "shop.db" in warning
    assert "3.51.3" in warning
    assert "sqlite:///duly.db" in warning


def test_the_owner_of_a_shared_file_with_a_rollback_journal_is_told_why_it_is_slow() -> None:
    warning = choose_journal(AFFECTED, owns_file=False, wanted=None).warning("shop.db", Mode.ROLLBACK)

    assert warning is not None
    assert "slow" in warning


@pytest.mark.parametrize(
    ("version", "owns_file", "wanted", "found"),
    [
        (FIXED, False, None, Mode.WAL),
        (AFFECTED, True, None, Mode.WAL),
        (AFFECTED, True, Mode.ROLLBACK, Mode.ROLLBACK),
        (AFFECTED, False, Mode.ROLLBACK, Mode.ROLLBACK),
    ],
)
def test_there_is_nothing_to_warn_of_otherwise(
    version: Version, owns_file: bool, wanted: Mode | None, found: Mode
) -> None:
    chosen = choose_journal(version, owns_file=owns_file, wanted=wanted)

    assert chosen.warning("duly.db", found) is None


def test_a_new_file_is_in_wal_mode(driver: Driver, path: str) -> None:
    with closing(sqlite3.connect(path)) as outside:
        assert outside.execute("pragma journal_mode").fetchone() == ("wal",)


def test_a_rollback_journal_can_be_asked_for(open_driver: OpenDriver, path: str) -> None:
    driver = open_driver("?journal=rollback")

    driver.run(add("one"))

    assert driver.describe()["journal"] == "rollback"
    assert not os.path.exists(path + "-wal")
    assert driver.run(texts()) == ["one"]


@pytest.mark.parametrize(("options", "expected"), [("", 2), ("?durability=normal", 1)])
def test_the_writing_handle_syncs_as_told(open_driver: OpenDriver, options: str, expected: int) -> None:
    assert open_driver(options).run(ask("pragma synchronous")) == [(expected,)]


def test_no_handle_of_ours_checkpoints_by_itself(driver: Driver) -> None:
    assert driver.run(ask("pragma wal_autocheckpoint")) == [(0,)]
    assert driver.run(ask("pragma wal_autocheckpoint", writes=False)) == [(0,)]


def test_a_file_with_an_applications_tables_keeps_its_journal_and_says_so_once(
    path: str, open_driver: OpenDriver, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(path)) as application:
        application.execute("create table orders (id integer primary key)")
        application.commit()

    with caplog.at_level(logging.WARNING, "duly.sqlite"):
        first = open_driver()
        open_driver()

    assert first.describe()["journal"] == "rollback"
    assert first.describe()["file owner"] == "an application"
    assert [path in record.getMessage() for record in caplog.records] == [True]


def test_a_file_that_an_application_moves_into_is_shared_from_the_next_opening_on(
    path: str, open_driver: OpenDriver
) -> None:
    open_driver().close()
    with closing(sqlite3.connect(path)) as application:
        application.execute("create table orders (id integer primary key)")
        application.commit()

    assert open_driver().describe()["file owner"] == "an application"


@pytest.fixture
def pair(driver: Driver, path: str) -> Iterator[tuple[sqlite3.Connection, sqlite3.Connection]]:
    """A writer and a second handle on the driver's file, set up as a checkpointer needs them."""
    writer, second = (sqlite3.connect(path, isolation_level=None) for _ in range(2))
    with closing(writer), closing(second):
        for one in (writer, second):
            one.execute("pragma wal_autocheckpoint=0")
        yield writer, second


Pair = tuple[sqlite3.Connection, sqlite3.Connection]


def test_writing_back_copies_the_whole_log(pair: Pair, path: str) -> None:
    writer, second = pair
    writer.execute("insert into duly_note values (1, 'one')")

    assert Checkpointer(writer, second, path).write_back()

    # Once everything is copied the log starts again, so the next commit does not make it longer.
    size = os.path.getsize(path + "-wal")
    writer.execute("insert into duly_note values (2, 'two')")
    assert os.path.getsize(path + "-wal") == size


def test_nothing_is_written_back_while_somebody_else_holds_the_write_lock(pair: Pair, path: str) -> None:
    writer, second = pair
    writer.execute("pragma busy_timeout=0")
    with closing(sqlite3.connect(path, isolation_level=None)) as caller:
        caller.execute("begin immediate")

        assert not Checkpointer(writer, second, path).write_back()

        caller.execute("rollback")


def test_the_write_lock_is_held_while_writing_back(pair: Pair, path: str) -> None:
    writer, second = pair
    was_writing: list[bool] = []
    second.set_trace_callback(lambda _: was_writing.append(writer.in_transaction))

    Checkpointer(writer, second, path).write_back()

    assert was_writing == [True]
    assert not writer.in_transaction


def test_a_number_of_commits_is_followed_by_writing_back(pair: Pair, path: str) -> None:
    writer, second = pair
    statements: list[str] = []
    second.set_trace_callback(statements.append)
    checkpointer = Checkpointer(writer, second, path)

    for _ in range(2 * module.COMMITS_BETWEEN):
        checkpointer.after_commit()

    assert len(statements) == 2


def test_a_log_that_grows_fast_is_written_back_early(pair: Pair, path: str) -> None:
    writer, second = pair
    statements: list[str] = []
    second.set_trace_callback(statements.append)
    checkpointer = Checkpointer(writer, second, path)

    writer.execute("insert into duly_note values (1, hex(randomblob(?)))", (module.GROWTH_BETWEEN,))
    for _ in range(2 * module.COMMITS_UNSEEN):
        checkpointer.after_commit()

    assert len(statements) == 1


def test_a_log_that_grows_in_one_commit_is_looked_at_after_it(pair: Pair, path: str) -> None:
    writer, second = pair
    statements: list[str] = []
    second.set_trace_callback(statements.append)
    checkpointer = Checkpointer(writer, second, path)

    writer.execute(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < ?) "
        "insert into duly_note (text) select i || hex(randomblob(10000)) from n",
        (module.CHANGES_UNSEEN,),
    )
    checkpointer.after_commit()

    assert len(statements) == 1


def test_the_log_is_not_looked_at_after_each_commit(
    pair: Pair, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpointer = Checkpointer(*pair, path)
    sizes = count(start=0)
    monkeypatch.setattr(checkpointer, "log_size", lambda: next(sizes))

    for _ in range(3 * module.COMMITS_UNSEEN):
        checkpointer.after_commit()

    assert next(sizes) == 3


def test_a_reader_that_pins_a_huge_log_is_mentioned_once(
    pair: Pair, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "SIZE_ALARMING", 1)
    writer, second = pair
    checkpointer = Checkpointer(writer, second, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("begin")
        reader.execute("select * from duly_note").fetchall()
        writer.execute("insert into duly_note values (1, 'one')")

        checkpointer.write_back()
        checkpointer.write_back()

    assert [record.getMessage().count("End the long read") for record in caplog.records] == [1]


def test_a_log_that_cannot_be_written_back_is_mentioned_and_harms_nobody(
    pair: Pair, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    writer, second = pair
    second.close()

    assert not Checkpointer(writer, second, path).write_back()

    assert not writer.in_transaction
    assert "could not be written back" in caplog.text


def test_a_journal_cannot_be_changed_under_others(open_driver: OpenDriver, driver: Driver) -> None:
    driver.run(texts())  # holds the file in WAL mode

    with pytest.raises(StoreUnavailable, match="Stop the other processes"):
        open_driver("?journal=rollback", patience=timedelta(milliseconds=50))
