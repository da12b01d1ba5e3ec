"""What only PostgreSQL knows: types, roles, truncation, replica mode, long transactions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import cast
from uuid import UUID

import psycopg
import pytest
from tests.reactive.arrange import TASK, Shop, keys, reaction
from tests.reactive.places import Place, PostgresPlace

from duly.errors import BadRequest, StoreError
from duly.reactive.tables import Table
from duly.stores.changes import Changes, Condition, Glance
from duly.stores.postgres import PostgresStore
from duly.testing import VirtualClock


@pytest.fixture
def shop(tmp_path: Path, clock: VirtualClock) -> Iterator[Shop]:
    place = PostgresPlace(tmp_path, clock)
    place.store.open()
    place.user.say("create table orders (id integer primary key, status text, total numeric, note text)")
    yield Shop(place, clock)
    place.store.close()


@pytest.mark.parametrize(
    ("kind", "written", "key"),
    [
        ("uuid", "0b1c1f7e-7b0e-4c5e-8f59-3f6a3c1d2e4f", UUID("0b1c1f7e-7b0e-4c5e-8f59-3f6a3c1d2e4f")),
        ("bigint", "9007199254740993", 9007199254740993),
        ("numeric(20,5)", "1.50000", Decimal("1.50000")),
        ("bytea", "\\x00ff", b"\x00\xff"),
        ("timestamptz", "2026-11-15 12:00:00.5+02", datetime(2026, 11, 15, 10, 0, 0, 500000, tzinfo=UTC)),
        ("timestamptz", "infinity", "infinity"),
        ("inet", "10.0.0.1", "10.0.0.1/32"),
        ("double precision", "0.1", 0.1),
        ("char(5)", "ab", "ab"),
    ],
)
def test_a_key_may_be_of_any_type(shop: Shop, kind: str, written: str, key: object) -> None:
    shop.say(f"create table doc (id {kind} primary key, body text)")
    shop.follow(reaction(table="doc", where=None, watch=None))

    with shop.place.user.transaction() as say:
        say("set local datestyle = 'German'; set local timezone = 'Asia/Tokyo'")
        say("set local bytea_output = 'escape'")
        say(f"insert into doc values ('{written}', 'x')")
    shop.settle_down()

    [told] = shop.work()
    assert told.key == (key,)
    found = shop.read(told, ["body"])
    assert found is not None
    assert (found.matches, found.seen, found.row) == (True, told.seen, {"body": "x"})
    shop.say("update doc set body = 'x'")
    shop.settle_down()
    assert shop.work() == []


def test_values_that_python_has_no_word_for_are_texts(shop: Shop) -> None:
    shop.say("create type mood as enum ('good', 'bad')")
    shop.say("create table doc (id int primary key, a timestamp, b mood, c int4range, d float8, e jsonb)")
    shop.follow(reaction(table="doc", where="b = 'good'", watch=("a", "b", "c", "d", "e")))

    shop.say("""insert into doc values (1, '-infinity', 'good', '[1,5)', 'NaN', '{"a": [1, null]}')""")
    shop.settle_down()

    [told] = shop.work()
    assert told.values == {"a": "-infinity", "b": "good", "c": "[1,5)", "d": "nan", "e": {"a": [1, None]}}


def test_truncation_is_seen(shop: Shop) -> None:
    shop.follow(reaction(on_delete=True))
    shop.order(1)
    shop.order(2)
    shop.settle_down()
    shop.work()

    shop.say("truncate orders")
    shop.settle_down()

    assert [(facts.key, str(facts.kind)) for facts in sorted(shop.work(), key=lambda one: one.key)] == [
        ((1,), "deleted"),
        ((2,), "deleted"),
    ]


def test_copy_is_seen(shop: Shop) -> None:
    shop.follow()

    with (
        psycopg.connect(shop.place.url, autocommit=True) as connection,
        connection.cursor().copy("copy orders (id, status) from stdin") as copy,
    ):
        for number in range(5):
            copy.write_row((number, "paid"))
    shop.settle_down()

    assert keys(shop.work()) == [0, 1, 2, 3, 4]


def test_replica_mode_is_seen_and_a_disabled_trigger_is_found_out(shop: Shop) -> None:
    shop.follow()

    with shop.place.user.transaction() as say:
        say("set local session_replication_role = replica")
        say("insert into orders (id, status) values (1, 'paid')")
    shop.settle_down()
    assert keys(shop.work()) == [1]
    shop.say("alter table orders disable trigger all")
    shop.order(2)
    shop.settle_down()
    assert shop.work() == []

    assert shop.tend().is_repaired
    shop.settle_down()

    assert keys(shop.work()) == [2]


def test_a_change_committed_late_by_a_long_transaction_is_not_lost(shop: Shop) -> None:
    shop.follow()

    with shop.place.user.transaction() as say:
        say("insert into orders (id, status) values (1, 'paid')")
        shop.order(2)
        shop.settle_down()
        assert keys(shop.work()) == [2]
    shop.settle_down()

    assert keys(shop.work()) == [1]


def test_a_writer_without_rights_on_the_engines_tables_writes_as_ever(shop: Shop) -> None:
    shop.follow()
    schema = f"shop_{shop.place.schema}"
    role = f"clerk_{shop.place.schema}"
    shop.say(f"drop role if exists {role}")
    shop.say(f"create role {role}")
    shop.say(f"grant usage on schema {schema} to {role}; grant all on orders to {role}")

    with shop.place.user.transaction() as say:
        say(f"set local role {role}")
        say("insert into orders (id, status) values (1, 'paid')")
    shop.settle_down()

    assert keys(shop.work()) == [1]
    shop.say(f"drop owned by {role}; drop role {role}")


def test_a_capture_that_fails_lets_the_write_through_and_looks_at_every_row(shop: Shop) -> None:
    shop.follow()
    shop.say(f"alter table {shop.place.schema}.change rename to elsewhere")

    shop.order(1)
    shop.say(f"alter table {shop.place.schema}.elsewhere rename to change")
    shop.settle_down()

    assert keys(shop.work()) == [1]


def test_a_key_column_that_is_renamed_lets_writes_through(shop: Shop) -> None:
    shop.follow()
    shop.say("alter table orders rename column id to number")

    shop.say("insert into orders (number, status) values (1, 'paid')")
    shop.say("update orders set total = 5")

    assert shop.say("select total from orders") == [(5,)]
    shop.say("alter table orders rename column number to id")
    shop.settle_down()
    assert keys(shop.work()) == [1]


def test_installing_waits_for_nobody_for_long(shop: Shop) -> None:
    store = shop.place.store
    store.run(store.adopt([reaction()]))

    with shop.place.user.transaction() as say:
        say("insert into orders (id, status) values (1, 'paid')")
        began = time.monotonic()
        tended = shop.tend()
        waited = time.monotonic() - began
    assert tended.is_busy
    assert tended.condition is Condition.NEW
    assert waited < 30

    assert shop.tend().condition is Condition.ACTIVE
    shop.settle_down()
    assert keys(shop.work()) == [1]


def test_two_schemas_may_have_tables_of_one_name(shop: Shop) -> None:
    other = f'Other "{shop.place.schema}"'
    quoted = '"' + other.replace('"', '""') + '"'
    shop.say(f"drop schema if exists {quoted} cascade")
    shop.say(f"create schema {quoted}")
    shop.say(f"create table {quoted}.orders (id integer primary key, status text, total numeric)")
    shop.follow(reaction(), reaction(task="other", table=Table(other, "orders")))

    shop.order(1)
    shop.say(f"insert into {quoted}.orders values (2, 'paid', 5)")
    shop.settle_down()

    assert keys(shop.work(TASK)) == [1]
    assert keys(shop.work("other")) == [2]
    shop.say(f"drop schema {quoted} cascade")


def test_partitions_are_followed_through_their_table(shop: Shop) -> None:
    shop.say("create table doc (id int, body text, primary key (id)) partition by range (id)")
    shop.say("create table doc_low partition of doc for values from (0) to (10)")
    shop.say("create table doc_high partition of doc for values from (10) to (20)")
    shop.follow(reaction(table="doc", where="body is not null", watch=("body",)))

    shop.say("insert into doc values (1, 'a'), (11, 'b')")
    shop.settle_down()
    assert keys(shop.work()) == [1, 11]
    shop.say("update doc set id = 12 where id = 1")
    shop.settle_down()

    assert keys(shop.work()) == [12]


def test_a_view_cannot_be_followed(shop: Shop) -> None:
    shop.say("create view paid as select * from orders")
    store = shop.place.store
    store.run(store.adopt([reaction(table="paid", key=("id",))]))

    assert "no ordinary table" in shop.tend().note


@pytest.mark.parametrize("where", ["note < now()::text", "total > random()", "id in (select 1)"])
def test_conditions_on_time_or_other_tables_are_refused(shop: Shop, where: str) -> None:
    store = shop.place.store
    store.run(store.adopt([reaction(where=where)]))

    tended = shop.tend()

    assert tended.is_mistaken
    assert "@app.schedule" in tended.note


def test_two_planners_leave_the_newest_values_behind(shop: Shop) -> None:
    """The first has consumed a change and waits; the second plans a newer one; then the first goes on."""
    shop.follow()
    shop.order(1)
    shop.settle_down()
    shop.work()
    serial = f"select digest from {shop.place.schema}.serial"

    with shop.place.user.transaction() as say:
        say(f"{serial} for update")  # somebody's transaction holds the document
        shop.say("update orders set total = 11")
        assert shop.plan().runs == 0
        shop.say("update orders set total = 12")
    shop.settle_down()

    [told] = shop.work()
    assert told.values == {"status": "paid", "total": 12}


def test_a_row_is_held_against_writers_for_a_moment_only(shop: Shop) -> None:
    store = shop.place.store
    shop.follow()
    shop.order(1)
    shop.settle_down()
    [told] = shop.work()
    glance = Glance(TASK, told)

    with psycopg.connect(shop.place.url) as ours, psycopg.connect(shop.place.url) as theirs:
        store.run_on(ours, store.hold_row(glance))
        theirs.execute("set lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            theirs.execute("update orders set total = 11")
    shop.say("update orders set total = 11")


def test_two_stores_follow_one_table_apart(shop: Shop, clock: VirtualClock) -> None:
    name = f"second_{shop.place.schema}"
    store = cast(Changes, PostgresStore(shop.place.url, clock=clock, namespace=name))
    other = Shop(OtherPlace(shop.place, store, name), clock)
    shop.follow()
    other.follow(reaction(where=None))

    shop.order(1)
    shop.order(2, "new")
    shop.settle_down()
    other.settle_down()

    assert keys(shop.work()) == [1]
    assert keys(other.work()) == [1, 2]
    assert not shop.tend().is_repaired
    store.close()
    shop.say(f"drop schema {name} cascade")


class OtherPlace:
    """The same database and user, with the engine's tables in another schema."""

    name = "postgres"

    def __init__(self, place: Place, store: Changes, schema: str) -> None:
        self.url, self.user, self.store, self.schema = place.url, place.user, store, schema


def test_without_a_worker_the_log_of_changes_stops_growing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.stores.changes.LARGEST_LOG", 8192)
    shop.follow()
    limited = "set duly.change_log_limit = 8192; "
    shop.say("insert into orders (id, status) select i, 'new' from generate_series(1, 500) as i")

    for number in range(1, 30):
        shop.say(f"{limited}update orders set status = 'paid' where id = {number}")

    assert shop.say(f"select count(*) from {shop.place.schema}.change") == [(500,)]
    shop.settle_down(limit=10)
    assert keys(shop.work()) == list(range(1, 30))
    shop.say(f"{limited}update orders set status = 'paid' where id = 30")
    assert shop.say(f"select count(*) from {shop.place.schema}.change") == [(1,)]


def test_an_alarm_outlives_the_transactions_that_lean_on_it(shop: Shop) -> None:
    """One that found a mark standing must not be looked at before it is over."""
    shop.follow()
    shop.order(1, "new")
    shop.say("truncate orders")
    with shop.place.user.transaction() as say:
        say("set duly.change_log_limit = -1")
        say("insert into orders (id, status) values (2, 'paid')")
        shop.settle_down()
        too_early = shop.work()

    shop.settle_down()

    assert too_early == []
    assert keys(shop.work()) == [2]
    assert shop.say(f"select count(*) from {shop.place.schema}.alarm") == [(0,)]


def test_an_alarm_is_raised_also_by_a_transaction_that_sees_the_past(shop: Shop) -> None:
    shop.follow()
    with shop.place.user.transaction() as say:
        say("set transaction isolation level repeatable read")
        say("select 1")
        shop.say("truncate orders")
        shop.settle_down()
        say("set duly.change_log_limit = -1")
        say("insert into orders (id, status) values (2, 'paid')")

    shop.settle_down()

    assert keys(shop.work()) == [2]


def test_a_table_that_is_locked_by_a_migration_is_planned_afterwards(shop: Shop) -> None:
    """Waiting is given up soon, and nothing is parked for it."""
    shop.follow()
    shop.order(1)
    store = shop.place.store

    with shop.place.user.transaction() as say:
        say("lock table orders in access exclusive mode")
        with pytest.raises(StoreError):
            shop.plan()
        assert store.run(store.examine(TASK)) is None
        assert shop.tend().condition is Condition.ACTIVE
    shop.settle_down()

    assert keys(shop.work()) == [1]


def test_a_key_whose_type_changes_leaves_nothing_behind(shop: Shop) -> None:
    """What was known by the old keys cannot be compared with the new ones, and must not stop anybody."""
    shop.say("create table doc (id text primary key, body text)")
    shop.follow(reaction(table="doc", where=None, watch=("body",)))
    shop.say("insert into doc values ('a', 'x'), ('2', 'y')")
    shop.settle_down()
    assert keys(shop.work()) == ["2", "a"]

    shop.say("delete from doc where id = 'a'; alter table doc alter column id type integer using id::integer")
    store = shop.place.store
    store.run(store.reconcile(TASK))
    with pytest.raises(BadRequest, match="invalid input syntax"):
        shop.plan()
    assert store.run(store.examine(TASK)) is None
    shop.settle_down()
    shop.say("insert into doc values (3, 'z')")
    shop.settle_down()

    assert keys(shop.work()) == [3]
    assert shop.standing().documents == 2


def test_a_table_of_somebody_else_is_told_with_the_remedy(shop: Shop, clock: VirtualClock) -> None:
    theirs, role = f"shop_{shop.place.schema}", f"engine_{shop.place.schema}"
    shop.say(f"drop schema if exists {role} cascade; drop role if exists {role}; create role {role} login")
    shop.say(f"create schema {role} authorization {role}; grant usage on schema {theirs} to {role}")
    url = shop.place.url.replace("postgres@", f"{role}@")
    store = cast(Changes, PostgresStore(url, clock=clock, namespace=role))
    store.open()
    store.run(store.adopt([reaction()]))

    tended = store.run(store.tend(TASK))
    shop.say(f"grant postgres to {role}")
    mended = store.run(store.tend(TASK))

    store.close()
    shop.say(f"drop schema {role} cascade; revoke usage on schema {theirs} from {role}; drop role {role}")
    assert (tended.condition, mended.condition) == (Condition.PARKED, Condition.ACTIVE)
    assert f'GRANT "postgres" TO "{role}"' in tended.note
