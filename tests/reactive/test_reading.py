"""The row as a body gets it, and documents chosen by people."""

from __future__ import annotations

import pytest
from tests.reactive.arrange import TASK, Shop, keys, reaction
from tests.reactive.places import Place

from duly import BadRequest, ConditionFailed
from duly.job import State
from duly.lifecycle import Fail
from duly.reactive.change import Facts, judged
from duly.stores.changes import Choice
from duly.testing import VirtualClock


def told(shop: Shop, number: int = 1) -> Facts:
    """What the run for an order is told."""
    shop.follow()
    shop.order(number)
    shop.settle_down()
    [facts] = shop.work()
    return facts


def test_a_row_that_is_as_it_was_is_read_whole(shop: Shop) -> None:
    facts = told(shop)

    assert judged(facts, shop.read(facts)) == {"id": 1, "status": "paid", "total": 10, "note": None}


def test_only_the_columns_asked_for_are_read(shop: Shop) -> None:
    facts = told(shop)

    found = shop.read(facts, ["note", "id"])

    assert found is not None
    assert dict(found.row) == {"note": None, "id": 1}
    with pytest.raises(BadRequest, match=r"no column 'colour'.*status"):
        shop.read(facts, ["colour"])


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("delete from orders", "no longer there"),
        ("update orders set status = 'refunded'", "no longer matches"),
        ("update orders set total = 11", "has changed"),
        ("update orders set total = null", "has changed"),
    ],
)
def test_each_condition_is_checked_in_the_same_read(shop: Shop, statement: str, words: str) -> None:
    facts = told(shop)

    shop.say(statement)

    with pytest.raises(ConditionFailed, match=words):
        judged(facts, shop.read(facts))


def test_what_is_not_watched_may_change(shop: Shop) -> None:
    facts = told(shop)

    shop.say("update orders set note = 'read'")

    assert judged(facts, shop.read(facts))["note"] == "read"


def test_a_run_planned_by_another_definition_is_judged_by_what_it_watched(shop: Shop) -> None:
    facts = told(shop)

    shop.follow(reaction(where="status in ('paid', 'new')", watch=("status",)))
    assert judged(facts, shop.read(facts))["id"] == 1
    shop.say("update orders set total = 12")

    with pytest.raises(ConditionFailed):
        judged(facts, shop.read(facts))


def test_a_column_that_went_is_a_change(shop: Shop) -> None:
    facts = told(shop)

    shop.follow(reaction(watch=("status",)))
    shop.say("alter table orders drop column total")

    with pytest.raises(ConditionFailed, match="has changed"):
        judged(facts, shop.read(facts))


def test_people_choose_documents_by_what_became_of_them(shop: Shop) -> None:
    store = shop.place.store
    shop.follow()
    for number in (1, 2, 3):
        shop.order(number, total=number)
    shop.settle_down()
    first, second, _ = sorted(shop.claim(), key=lambda claim: claim.key or "")
    shop.settle(first)
    shop.settle(second, Fail("the Printer is on fire"))

    def chosen(**fields: object) -> list[str]:
        ids = set(store.run(store.chosen(Choice(task=TASK, **fields))))  # type: ignore[arg-type]
        return sorted(job.key or "" for job in shop.jobs() if job.id in ids)

    assert chosen() == ["1", "2", "3"]
    assert chosen(states=(State.FAILED,)) == ["2"]
    assert chosen(states=(State.DONE, State.RUNNING)) == ["1", "3"]
    assert chosen(error="printer") == ["2"]
    assert chosen(key="3") == ["3"]
    assert chosen(where="total > 1") == ["2", "3"]
    assert chosen(where="total > 1", states=(State.RUNNING,)) == ["3"]


def test_what_people_ask_for_runs_again_whatever_became_of_it(shop: Shop) -> None:
    store = shop.place.store
    shop.follow()
    for number in (1, 2, 3):
        shop.order(number)
    shop.settle_down()
    first, second, third = sorted(shop.claim(), key=lambda claim: claim.key or "")
    shop.settle(first)
    shop.settle(second, Fail("boom"))

    assert store.run(store.revisit(Choice(task=TASK))) == 3
    shop.settle_down()

    assert keys(shop.work()) == [1, 2]  # the third is running: it gets one more run afterwards
    shop.settle(third)
    assert keys(shop.work()) == [3]
    shop.settle_down()
    assert shop.work() == []


def test_a_scan_can_be_foretold(shop: Shop) -> None:
    store = shop.place.store
    shop.order(1)
    shop.order(2)
    shop.order(3, "new")
    store.run(store.adopt([reaction()]))
    shop.tend()

    before = store.run(store.foretell(TASK))
    shop.settle_down()
    shop.work()
    after = store.run(store.foretell(TASK))

    assert (before, after) == (2, 0)
    assert shop.jobs(State.WAITING) == []


def test_reconciling_by_hand_finds_deleted_records(shop: Shop) -> None:
    store = shop.place.store
    facts = told(shop)
    forget_documents(shop)

    store.run(store.reconcile(TASK))
    shop.settle_down()

    assert [one.key for one in shop.work()] == [facts.key]


def forget_documents(shop: Shop) -> None:
    """As somebody does who empties the engine's tables by hand."""
    table = "duly_document" if shop.place.name == "sqlite" else f"{shop.place.schema}.document"
    shop.say(f"delete from {table}")


@pytest.mark.parametrize("columns", ["a integer, b text", "a bigint, b varchar(20)"])
def test_a_key_of_several_columns_is_given_as_a_tuple(
    place: Place, clock: VirtualClock, columns: str
) -> None:
    shop = Shop(place, clock)
    shop.say(f"create table parts ({columns}, primary key (a, b))")
    shop.follow(reaction(table="parts", where=None, watch=None))
    shop.say("insert into parts values (1, 'it''s \"so\"')")
    shop.settle_down()
    store = shop.place.store

    key = store.run(store.name_row(TASK, (1, 'it\'s "so"')))

    [job] = shop.jobs()
    assert job.key == key
    assert store.run(store.revisit(Choice(task=TASK, key=key))) == 1
    with pytest.raises(BadRequest, match="a, b: give 2 of them"):
        store.run(store.name_row(TASK, (1,)))
