"""The tables follow the code forwards, and only code they no longer serve is stopped."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing

import pytest
from tests.unit.sqlite.notes import MIGRATIONS, add, ask, texts

from duly.errors import SchemaMismatch
from duly.stores.sqlite.driver import Driver
from duly.stores.sqlite.migrate import shipped, statements
from duly.stores.tables.migrations import Migration, parse

WIDER = parse("0002_colour.sql", "alter table duly_note add column colour text;")
NARROWER = parse("0003_no_trace.sql", "-- oldest code: 2\ndrop trigger duly_traced;\ndrop table duly_trace;")
BROKEN = parse("0002_broken.sql", "create table duly_half (a) strict;")


def opened(path: str, migrations: Sequence[Migration], namespace: str = "duly") -> Driver:
    driver = Driver(f"sqlite:///{path}", migrations=migrations, namespace=namespace)
    try:
        driver.open()
    except BaseException:
        driver.close()
        raise
    return driver


def test_a_new_file_gets_every_table(path: str) -> None:
    with closing(opened(path, MIGRATIONS)) as driver:
        assert driver.run(add("one")) == 1
        assert driver.describe()["schema"] == "1"
        assert driver.pending() == []


def test_opening_again_changes_nothing(path: str) -> None:
    opened(path, MIGRATIONS).close()
    with closing(opened(path, MIGRATIONS)) as driver:
        assert driver.run(ask("select count(*) from duly_schema", writes=False)) == [(1,)]


def test_what_is_pending_is_told_without_touching_the_file(path: str) -> None:
    opened(path, MIGRATIONS).close()
    later = Driver(f"sqlite:///{path}", migrations=(*MIGRATIONS, WIDER, NARROWER))

    assert later.pending() == ["0002_colour", "0003_no_trace"]
    assert later.pending() == ["0002_colour", "0003_no_trace"]


def test_everything_is_pending_for_a_file_that_does_not_exist(path: str) -> None:
    assert Driver(f"sqlite:///{path}", migrations=MIGRATIONS).pending() == ["0001_notes"]


def test_an_expanding_migration_runs_by_itself_and_keeps_what_is_there(path: str) -> None:
    with closing(opened(path, MIGRATIONS)) as driver:
        driver.run(add("one"))

    with closing(opened(path, (*MIGRATIONS, WIDER))) as driver:
        assert driver.run(ask("select text, colour from duly_note")) == [("one", None)]


def test_older_code_goes_on_with_newer_tables(path: str) -> None:
    with closing(opened(path, MIGRATIONS)) as older, closing(opened(path, (*MIGRATIONS, WIDER))):
        assert older.run(add("one")) == 1
        older.check_schema()

    with closing(opened(path, MIGRATIONS)) as older:
        assert older.run(texts()) == ["one"]


def test_a_contracting_migration_waits_for_an_order(path: str) -> None:
    with closing(opened(path, (*MIGRATIONS, WIDER, NARROWER))) as driver:
        assert driver.pending() == ["0003_no_trace"]

        assert driver.migrate() == ["0003_no_trace"]

        assert driver.pending() == []


def test_an_expanding_migration_overtakes_a_contracting_one_that_waits(path: str) -> None:
    contracting = parse("0002_less.sql", "-- oldest code: 2\ndrop table duly_trace;")
    expanding = parse("0003_more.sql", "create table duly_more (a int) strict;")

    with closing(opened(path, (*MIGRATIONS, contracting, expanding))) as driver:
        assert driver.pending() == ["0002_less"]


def test_code_the_schema_no_longer_serves_is_stopped_with_a_sentence(path: str) -> None:
    with closing(opened(path, (*MIGRATIONS, WIDER, NARROWER))) as newest:
        newest.migrate()

    with pytest.raises(SchemaMismatch, match=r"level 2 and later, this version of Duly is at 1\. Upgrade"):
        opened(path, MIGRATIONS)
    opened(path, (*MIGRATIONS, WIDER)).close()


def test_running_code_learns_that_it_is_no_longer_served(path: str) -> None:
    with closing(opened(path, MIGRATIONS)) as older:
        with closing(opened(path, (*MIGRATIONS, WIDER, NARROWER))) as newest:
            newest.migrate()

        with pytest.raises(SchemaMismatch):
            older.check_schema()


def test_a_migration_that_fails_leaves_nothing_behind(path: str) -> None:
    with pytest.raises(Exception, match="duly_half"):
        opened(path, (*MIGRATIONS, BROKEN))

    with closing(sqlite3.connect(path)) as outside:
        assert outside.execute("select name from sqlite_master where name like 'duly%'").fetchall() == []


def test_namespaces_share_a_file_without_meeting(path: str) -> None:
    with closing(opened(path, MIGRATIONS, "shop")) as shop, closing(opened(path, MIGRATIONS, "blog")) as blog:
        shop.run(add("for the shop"))

        assert blog.run(texts()) == []
        assert shop.run(texts()) == ["for the shop"]
        assert blog.describe()["file owner"] == "duly"
    with closing(sqlite3.connect(path)) as outside:
        assert outside.execute("select text from shop_note").fetchall() == [("for the shop",)]


def test_a_file_must_end_its_last_statement() -> None:
    with pytest.raises(ValueError, match="semicolon"):
        list(statements("create table a (b);\ncreate table c (d)"))


def test_a_trigger_is_one_statement_and_comments_are_none() -> None:
    script = """-- first
create table a (b);
create trigger t after insert on a begin
    select 1;
    select 2;
end;
-- end"""

    assert len(list(statements(script))) == 2


def test_a_migrations_file_is_named_by_number() -> None:
    with pytest.raises(ValueError, match=r"0001_jobs\.sql"):
        parse("jobs.sql", "")


def test_the_shipped_migrations_are_numbered_without_a_gap() -> None:
    assert [step.number for step in shipped()] == list(range(1, len(shipped()) + 1))
