"""What only SQLite knows: keys of any type in one column, tables built anew, REPLACE."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest
from tests.reactive.arrange import TASK, Shop, keys, reaction
from tests.reactive.places import SqlitePlace, User

from duly.stores.changes import Changes, Choice
from duly.stores.sqlite import SqliteStore
from duly.testing import VirtualClock


@pytest.fixture
def shop(tmp_path: Path, clock: VirtualClock) -> Iterator[Shop]:
    place = SqlitePlace(tmp_path, clock)
    place.store.open()
    place.user.say("create table orders (id integer primary key, status text, total numeric, note text)")
    yield Shop(place, clock)
    place.store.close()


@pytest.mark.parametrize("key", [b"\x00\xff", "nul\0inside", "", 1.5, -(2**63), "🙂'\""])
def test_a_key_may_be_of_any_type(shop: Shop, tmp_path: Path, key: object) -> None:
    shop.say("create table doc (id primary key, body blob) without rowid")
    shop.follow(reaction(table="doc", where=None, watch=None))

    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection, connection:
        connection.execute("insert into doc values (?, ?)", (key, b"\x00"))
    shop.settle_down()

    [told] = shop.work()
    assert told.key == (key,)
    assert told.values == {"id": key, "body": b"\x00"}
    found = shop.read(told, ["body"])
    assert found is not None
    assert (found.seen, found.row) == (told.seen, {"body": b"\x00"})
    shop.say("update doc set body = body")
    assert shop.plan().runs == 0


def test_rows_without_a_key_are_left_alone(shop: Shop) -> None:
    shop.say("create table doc (id text primary key, body text)")
    shop.follow(reaction(table="doc", where=None, watch=None))

    shop.say("insert into doc values (null, 'x'), ('a', 'y')")
    shop.settle_down()

    assert keys(shop.work()) == ["a"]


def test_replace_is_like_an_update(shop: Shop) -> None:
    shop.follow()
    shop.order(1)
    shop.settle_down()
    shop.work()

    shop.say("insert or replace into orders (id, status, total) values (1, 'paid', 99)")
    shop.settle_down()

    [told] = shop.work()
    assert told.values == {"status": "paid", "total": 99}


def test_a_table_built_anew_by_a_migration_is_followed_again(shop: Shop) -> None:
    """As Django alters a column: another table, a copy, a drop and a rename. Triggers go with the drop."""
    shop.follow()
    shop.order(1)
    shop.settle_down()
    shop.work()

    with shop.place.user.transaction() as say:
        say("create table new__orders (id integer primary key, status varchar(9), total numeric, note text)")
        say("insert into new__orders select * from orders")
        say("drop table orders")
        say("alter table new__orders rename to orders")
    shop.order(2)
    shop.settle_down()
    assert shop.work() == []

    assert shop.tend().is_repaired
    shop.settle_down()

    assert keys(shop.work()) == [2]


@pytest.mark.parametrize(
    "where",
    [
        "note < datetime('now')",
        "status = 'paid' and note < strftime('%s', 'NOW')",
        "note < current_timestamp",
        "note < datetime()",
        "id in (select 1)",
        "random() > 0",
    ],
)
def test_conditions_on_time_or_other_tables_are_refused(shop: Shop, where: str) -> None:
    store = shop.place.store
    store.run(store.adopt([reaction(where=where)]))

    tended = shop.tend()

    assert tended.is_mistaken
    assert "@app.schedule" in tended.note


def test_dates_that_come_from_the_row_are_accepted(shop: Shop) -> None:
    shop.follow(reaction(where="date(note) > '2026-01-01' and status <> 'now'"))


def test_the_probe_of_a_condition_leaves_nothing_behind(shop: Shop) -> None:
    shop.follow()
    shop.order(1)

    assert shop.say("select count(*) from orders") == [(1,)]
    shop.settle_down()
    assert keys(shop.work()) == [1]


def test_columns_that_are_renamed_are_renamed_in_the_triggers(shop: Shop) -> None:
    shop.follow(reaction(where=None, watch=None))

    shop.say("alter table orders rename column id to number")
    shop.say("insert into orders (number) values (1)")
    shop.settle_down()

    assert keys(shop.work()) == [1]


def test_two_namespaces_of_one_file_follow_one_table_apart(shop: Shop, clock: VirtualClock) -> None:
    place = shop.place
    other = Shop(OtherPlace(place.url, place.user, clock), clock)
    shop.follow(reaction(on_delete=True))
    other.follow(reaction(where=None, key=("id",)))

    shop.order(1)
    shop.order(2, "new")
    shop.settle_down()
    other.settle_down(limit=1)

    assert keys(shop.work()) == [1]
    told = other.work()
    assert keys(told) == [1, 2]
    assert other.read(told[0], ["id"]) is not None
    store = other.place.store
    assert store.run(store.revisit(Choice(task=TASK, where="status = 'new'"))) == 1
    store.run(store.reconcile(TASK))
    other.settle_down(limit=1)
    assert keys(other.work()) == [2]
    assert store.run(store.foretell(TASK)) == 0
    store.close()


class OtherPlace:
    """The same file and user, with tables of the engine by another name."""

    name, schema = "sqlite", "main"

    def __init__(self, url: str, user: User, clock: VirtualClock) -> None:
        self.url = url
        self.user = user
        self.store = cast(Changes, SqliteStore(url, clock=clock, namespace="other"))


def test_a_key_changed_by_its_hidden_name_is_a_change_of_the_key(shop: Shop) -> None:
    shop.follow()
    shop.order(1)
    shop.settle_down()
    shop.work()

    shop.say("update orders set rowid = 7")
    shop.settle_down()

    assert keys(shop.work()) == [7]
    assert shop.standing().documents == 1


def test_a_reader_waits_for_a_writer_also_while_it_opens_the_file(shop: Shop, tmp_path: Path) -> None:
    """With a rollback journal a committing writer keeps readers out, and a handle reads as it is opened."""
    store = SqliteStore(shop.place.url)
    writer = sqlite3.connect(tmp_path / "shop.db", isolation_level=None, check_same_thread=False)
    writer.execute("pragma journal_mode=delete")
    store.open()
    writer.execute("begin exclusive")
    ending = threading.Timer(0.4, writer.rollback)

    ending.start()
    found = store.run(cast(Changes, store).has_changes())

    assert found is False
    ending.join()
    writer.close()
    store.close()
