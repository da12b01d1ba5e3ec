"""Triggers: any key, any name, any way to write; and what happens when they or the table vanish."""

from __future__ import annotations

import pytest
from tests.reactive.arrange import TASK, Shop, keys, reaction
from tests.reactive.places import Place

from duly.job import State
from duly.reactive.reaction import Existing, Reaction
from duly.reactive.tables import Table
from duly.stores.changes import Condition
from duly.testing import VirtualClock


@pytest.fixture
def bare(place: Place, clock: VirtualClock) -> Shop:
    """A place without any table."""
    return Shop(place, clock)


def everything(table: str | Table = "doc", **fields: object) -> Reaction:
    return reaction(table=table, where=None, watch=None, **fields)


def test_a_key_may_be_of_several_columns(bare: Shop) -> None:
    bare.say("create table doc (shop integer, name text, body text, primary key (shop, name))")
    bare.follow(everything())

    bare.say("insert into doc values (1, 'it''s \"a\", b', 'x'), (2, 'it''s \"a\", b', 'y')")
    bare.plan()

    told = bare.work()
    assert keys(told) == [(1, 'it\'s "a", b'), (2, 'it\'s "a", b')]
    assert {bare.read(facts).row["body"] for facts in told} == {"x", "y"}  # type: ignore[union-attr]
    bare.say("update doc set shop = 3 where shop = 1")
    bare.plan()
    assert keys(bare.work()) == [(3, 'it\'s "a", b')]


def test_a_key_may_be_text_of_any_length(bare: Shop) -> None:
    bare.say("create table doc (name text primary key, body text)")
    bare.follow(everything())
    long = "k" * 10_000

    bare.say(f"insert into doc values ('{long}', 'x'), ('', 'y'), ('Ünïcödé 🙂', 'z')")
    bare.plan()

    assert keys(bare.work()) == sorted([long, "", "Ünïcödé 🙂"])


def test_names_may_need_quoting(bare: Shop) -> None:
    bare.say(
        'create table "Or""der. of" ("The ""Key""" integer primary key, "select" text, "%s {where}" text)'
    )
    odd = Table(None, 'Or"der. of')
    bare.follow(reaction(table=odd, where="\"select\" = '%s {table} :x'", watch=("select", "%s {where}")))

    bare.say("insert into \"Or\"\"der. of\" values (1, '%s {table} :x', 'b'), (2, 'other', 'b')")
    bare.plan()

    [told] = bare.work()
    assert (told.key, told.values) == ((1,), {"select": "%s {table} :x", "%s {where}": "b"})
    found = bare.read(told)
    assert found is not None
    assert found.row['The "Key"'] == 1


def test_a_unique_column_can_name_a_row(bare: Shop) -> None:
    bare.say("create table doc (id integer primary key, email text not null unique)")
    bare.follow(everything(key=("email",)))

    bare.say("insert into doc values (1, 'a@example.org')")
    bare.plan()

    assert keys(bare.work()) == ["a@example.org"]


@pytest.mark.parametrize(
    ("table", "fields", "words"),
    [
        ("(a integer, b text)", {}, "no primary key"),
        ("(a integer primary key, b text)", {"key": ("c",)}, "no column 'c' (key)"),
        ("(a integer primary key, b text)", {"key": ("b",)}, "does not name one row"),
        ("(a integer primary key, b text)", {"watch": ("b", "d")}, "no column 'd' (watch)"),
        ("(a integer primary key, b text)", {"where": "d = 1"}, "d"),
        ("(a integer primary key, b text)", {"where": "b ="}, "where='b ='"),
        ("(a integer primary key, b text)", {"where": "a in (select 1)"}, "other tables"),
        ("(a integer primary key, b text)", {"where": "b < current_timestamp::text"}, "where="),
        ("(a integer primary key, b text)", {"where": "random() > 0.5"}, "random"),
    ],
)
def test_what_cannot_be_followed_is_told_with_the_remedy(
    bare: Shop, table: str, fields: dict[str, object], words: str
) -> None:
    bare.say(f"create table doc {table}")
    declared = reaction(**{"table": "doc", "where": None, "watch": None, **fields})

    bare.place.store.run(bare.place.store.adopt([declared]))
    tended = bare.tend()

    assert tended.condition is Condition.PARKED
    assert tended.is_mistaken
    assert words in tended.note
    assert bare.standing().note == tended.note
    bare.say("insert into doc values (1, 'x')")


def test_raw_bulk_statements_are_seen(shop: Shop) -> None:
    shop.follow()
    shop.say("insert into orders (id, status) values (1, 'new'), (2, 'new'), (3, 'new')")

    shop.say("update orders set status = 'paid' where id > 1")
    shop.settle_down()

    assert keys(shop.work()) == [2, 3]
    shop.say("delete from orders")
    shop.settle_down()
    assert shop.standing().documents == 0


def test_existing_rows_run_at_first_definition(shop: Shop) -> None:
    shop.order(1)
    shop.order(2, "new")

    shop.follow()

    assert keys(shop.work()) == [1]


def test_existing_rows_can_be_ignored_until_they_change(shop: Shop) -> None:
    shop.order(1)
    shop.follow(reaction(existing=Existing.IGNORE))
    assert shop.work() == []

    shop.say("update orders set note = 'read'")
    shop.settle_down()
    assert shop.work() == []
    shop.say("update orders set total = 99")
    shop.order(2)
    shop.settle_down()

    assert keys(shop.work()) == [1, 2]


def test_a_row_changed_while_existing_ones_are_ignored_runs(shop: Shop) -> None:
    for number in range(5):
        shop.order(number)
    store = shop.place.store
    store.run(store.adopt([reaction(existing=Existing.IGNORE)]))
    shop.tend()

    store.run(store.scan(100))
    shop.say("update orders set total = 99 where id = 3")
    while shop.plan(limit=1).changes:
        pass

    assert keys(shop.work()) == [3]


def test_a_look_at_every_row_goes_on_where_it_stopped(shop: Shop) -> None:
    for number in range(10):
        shop.order(number)
    store = shop.place.store
    store.run(store.adopt([reaction()]))
    shop.tend()

    assert store.run(store.scan(4)) == 4
    assert shop.standing().is_scanning
    shop.say("update orders set total = 99 where id = 1")
    shop.say("delete from orders where id = 7")
    shop.order(-5)
    shop.settle_down(limit=4)

    assert keys(shop.work()) == [-5, 0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert not shop.standing().is_scanning
    assert shop.standing().reconciled_at is not None


def test_a_look_at_every_row_finds_what_nobody_told_of(shop: Shop) -> None:
    shop.follow()
    for number in (1, 2, 3):
        shop.order(number)
    shop.settle_down()
    shop.work()

    drop_triggers(shop)
    shop.say("delete from orders where id = 1")
    shop.say("update orders set status = 'refunded' where id = 2")
    shop.say("update orders set total = 99 where id = 3")
    shop.order(4)
    assert shop.plan().changes == 0
    tended = shop.tend()
    shop.settle_down()

    assert tended.is_repaired
    assert keys(shop.work()) == [3, 4]
    assert shop.standing().documents == 2


def drop_triggers(shop: Shop) -> None:
    """As a migration does that builds a table anew."""
    if shop.place.name == "sqlite":
        names = shop.say("select name from sqlite_master where type = 'trigger'")
        for (name,) in names:
            shop.say(f'drop trigger "{name}"')
    else:
        names = shop.say(
            "select tgname from pg_trigger where tgrelid = 'orders'::regclass and not tgisinternal"
        )
        for (name,) in names:
            shop.say(f'drop trigger "{name}" on orders')
    assert names


def test_tending_what_is_well_changes_nothing(shop: Shop) -> None:
    shop.follow()
    shop.order(1)
    shop.settle_down()

    assert not shop.tend().is_repaired
    assert not shop.standing().is_scanning


def test_a_table_that_vanishes_parks_its_task_until_it_is_back(shop: Shop) -> None:
    shop.follow()
    shop.order(1)
    shop.settle_down()
    shop.work()

    shop.say("drop table orders")
    gone = shop.tend()
    shop.settle_down()
    shop.say("create table orders (id integer primary key, status text, total numeric, note text)")
    shop.order(2)
    back = shop.tend()
    shop.settle_down()

    assert (gone.condition, gone.is_mistaken) == (Condition.PARKED, False)
    assert "no table orders" in gone.note
    assert back.condition is Condition.ACTIVE
    assert keys(shop.work()) == [2]


def test_a_table_may_come_after_its_task(bare: Shop) -> None:
    store = bare.place.store
    store.run(store.adopt([reaction(existing=Existing.IGNORE)]))
    assert bare.tend().condition is Condition.PARKED

    bare.say("create table orders (id integer primary key, status text, total numeric)")
    bare.order(1)
    assert bare.tend().condition is Condition.ACTIVE
    bare.settle_down()

    assert bare.work() == []
    bare.say("update orders set total = 5")
    bare.settle_down()
    assert keys(bare.work()) == [1]


def test_a_watched_column_may_go_and_users_write_on(shop: Shop) -> None:
    shop.follow()
    shop.order(1)
    shop.settle_down()

    shop.say("alter table orders drop column total")
    shop.say("insert into orders (id, status) values (2, 'paid')")
    tended = shop.tend()
    shop.say("alter table orders add column total numeric")
    shop.tend()
    shop.settle_down()

    assert tended.condition is Condition.PARKED
    assert "'total'" in tended.note
    assert keys(shop.work()) == [1, 2]


def test_another_definition_looks_at_every_row_and_runs_what_it_adds(shop: Shop) -> None:
    shop.order(1)
    shop.order(2, "new")
    shop.follow()
    shop.work()

    shop.follow(reaction(where="status in ('paid', 'new')"))

    assert keys(shop.work()) == [2]
    shop.follow(reaction(where="status = 'new'"))
    assert shop.work() == []
    assert shop.standing().documents == 1


def test_an_older_worker_does_not_bring_its_definition_back(shop: Shop, clock: VirtualClock) -> None:
    store = shop.place.store
    old, new = reaction(), reaction(where="status = 'new'")
    shop.follow(old)
    shop.follow(new)

    outranked = store.run(store.adopt([old]))

    assert outranked == {TASK: new}
    assert shop.standing().reaction == new
    clock.advance("6m")
    assert store.run(store.adopt([old])) == {}
    assert shop.standing().reaction == old


def test_a_higher_version_can_run_everything_or_what_failed(shop: Shop) -> None:
    from duly.lifecycle import Fail
    from duly.reactive.reaction import Evolution

    shop.follow()
    shop.order(1)
    shop.order(2)
    shop.settle_down()
    first, second = shop.claim()
    shop.settle(first)
    shop.settle(second, Fail("boom"))

    shop.follow(reaction(version=2))
    assert shop.work() == []
    shop.follow(reaction(version=3, on_version_change=Evolution.REPROCESS_FAILED))
    assert keys(shop.work()) == [2]
    shop.follow(reaction(version=4, on_version_change=Evolution.REPROCESS_ALL))
    assert keys(shop.work()) == [1, 2]


def test_a_task_that_left_the_code_is_parked_and_lets_the_table_go(shop: Shop, clock: VirtualClock) -> None:
    shop.follow()
    store = shop.place.store
    clock.advance("11m")

    store.run(store.tidy())
    shop.order(1)

    assert shop.standing().condition is Condition.PARKED
    assert "left the code" in shop.standing().note
    assert shop.plan().changes == 0
    shop.follow()
    assert keys(shop.work()) == [1]


def test_documents_are_forgotten_by_their_policy(shop: Shop, clock: VirtualClock) -> None:
    from duly.reactive.reaction import Cleaning

    tasks = {str(policy): reaction(task=str(policy), cleanup=policy) for policy in Cleaning}
    shop.follow(*tasks.values())
    shop.order(1)
    shop.order(2)
    shop.order(3)
    shop.settle_down()
    shop.work(*tasks)
    shop.say("delete from orders where id = 1")
    shop.say("update orders set status = 'refunded' where id = 2")
    shop.settle_down()
    store = shop.place.store

    clock.advance("23h")
    store.run(store.adopt(list(tasks.values())))
    early = store.run(store.tidy())
    clock.advance("2h")
    store.run(store.adopt(list(tasks.values())))
    late = store.run(store.tidy())

    assert (early, late) == (0, 1 + 2)


def test_too_many_changes_become_a_look_at_every_row(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for store in ("sqlite", "postgres"):
        monkeypatch.setattr(f"duly.stores.{store}.reactive.planning.FLOOD", 10)
    shop.follow()
    for number in range(12):
        shop.order(number)

    first = shop.plan(limit=5)
    shop.settle_down(limit=5)

    assert (first.changes, first.runs) == (12, 0)
    assert keys(shop.work()) == list(range(12))


def test_cancelled_by_hand_is_not_planned_again_by_itself(shop: Shop) -> None:
    from duly.stores.contract import Cancel, Selection

    shop.follow()
    shop.order(1)
    shop.settle_down()
    store = shop.place.store

    store.run(store.amend(Selection(tasks=(TASK,)), Cancel()))
    shop.settle_down()

    assert [job.state for job in shop.jobs()] == [State.CANCELLED]


def test_another_key_is_another_way_to_name_the_same_rows(shop: Shop) -> None:
    shop.say("create table doc (id integer primary key, code text not null unique, body text)")
    shop.follow(reaction(table="doc", where=None, watch=("body",), key=("code",)))
    shop.say("insert into doc values (1, 'a', 'x')")
    shop.settle_down()
    [told] = shop.work()

    shop.follow(reaction(table="doc", where=None, watch=("body",), key=("id",), version=2))
    assert (told.key, shop.read(told)) == (("a",), None)
    assert keys(shop.work()) == [1]
    shop.say("update doc set body = 'y'")
    shop.settle_down()

    assert keys(shop.work()) == [1]
    assert shop.standing().documents == 1


@pytest.mark.parametrize(
    "where", ["total = 1) or (total = 2", "total = 1 or (total = 2", "total = 1 /* open"]
)
def test_a_condition_that_does_not_hold_together_is_refused(shop: Shop, where: str) -> None:
    shop.place.store.run(shop.place.store.adopt([reaction(where=where)]))

    tended = shop.tend()

    assert (tended.condition, tended.is_mistaken) == (Condition.PARKED, True)
    assert "cannot be followed on table orders" in tended.note


def test_a_condition_may_hold_anything_that_statements_are_filled_with(shop: Shop) -> None:
    odd = "status like 'p%d' and coalesce(note, '') <> '{table} :x %s %(y)s' -- a remark"
    shop.follow(reaction(where=odd))

    shop.order(1)
    shop.settle_down()

    [told] = shop.work()
    assert shop.read(told) is not None
    shop.place.store.run(shop.place.store.reconcile(TASK))
    assert shop.settle_down() == 0
