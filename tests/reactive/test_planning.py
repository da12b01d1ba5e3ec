"""From changes of rows to jobs: what runs, what does not, and once each."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from tests.reactive.arrange import TASK, Shop, facts_of, keys, reaction

from duly.job import State
from duly.lifecycle import Fail, Skip, TryAgain
from duly.stores.contract import Delete, Selection
from duly.testing import VirtualClock


def test_a_row_that_matches_runs_with_its_values(shop: Shop) -> None:
    shop.follow()

    shop.order(17, total=42)
    shop.plan()

    [told] = shop.work()
    assert told.key == (17,)
    assert told.values == {"status": "paid", "total": 42}
    assert [job.key for job in shop.jobs()] == ["17"]


def test_a_row_that_does_not_match_runs_nothing(shop: Shop) -> None:
    shop.follow()

    shop.order(1, "new")

    assert shop.plan().runs == 0
    assert shop.jobs() == []


def test_an_update_that_changes_nothing_watched_runs_nothing(shop: Shop) -> None:
    shop.follow()
    shop.order(1)
    shop.plan()
    shop.work()

    shop.say("update orders set note = 'read'")
    shop.say("update orders set total = total")

    assert shop.plan().runs == 0


def test_null_is_a_value_like_others(shop: Shop) -> None:
    shop.follow()
    shop.say("insert into orders (id, status) values (1, 'paid')")
    shop.plan()
    [first] = shop.work()

    shop.say("update orders set total = null")
    assert shop.plan().runs == 0
    shop.say("update orders set total = 5")
    assert shop.plan().runs == 1
    [second] = shop.work()
    shop.say("update orders set total = null")
    assert shop.plan().runs == 1

    assert first.values == {"status": "paid", "total": None}
    assert second.values == {"status": "paid", "total": 5}


def test_many_changes_before_a_look_make_one_run_with_the_last(shop: Shop) -> None:
    shop.follow()

    shop.order(1)
    for total in range(20):
        shop.say(f"update orders set total = {total}")
    shop.plan()

    [told] = shop.work()
    assert told.values == {"status": "paid", "total": 19}


def test_a_change_while_its_job_waits_is_merged_into_it(shop: Shop) -> None:
    shop.follow()
    shop.order(1)
    shop.plan()

    shop.say("update orders set total = 11")
    shop.plan()

    [told] = shop.work()
    assert told.values == {"status": "paid", "total": 11}
    assert len(shop.jobs()) == 1


def test_fifty_changes_during_a_run_make_exactly_one_more(shop: Shop) -> None:
    shop.follow()
    shop.order(1)
    shop.plan()
    [running] = shop.claim()

    for total in range(50):
        shop.say(f"update orders set total = {total}")
        shop.plan()

    assert shop.claim() == []
    shop.settle(running)
    [told] = shop.work()
    assert told.values == {"status": "paid", "total": 49}
    assert shop.work() == []


def test_leaving_the_filter_cancels_what_waits(shop: Shop) -> None:
    shop.follow()
    shop.order(1)
    shop.plan()

    shop.say("update orders set status = 'refunded'")
    shop.plan()

    [job] = shop.jobs()
    assert (job.state, job.reason) == (State.CANCELLED, "its row no longer matches")
    assert shop.work() == []


def test_coming_back_to_the_filter_runs_again_with_the_same_values(shop: Shop) -> None:
    shop.follow()
    shop.order(1)
    shop.plan()
    shop.work()

    shop.say("update orders set status = 'refunded'")
    shop.plan()
    shop.say("update orders set status = 'paid'")
    shop.plan()

    assert keys(shop.work()) == [1]


def test_leaving_and_coming_back_between_two_looks_is_no_change(shop: Shop) -> None:
    shop.follow()
    shop.order(1)
    shop.plan()
    shop.work()

    shop.say("update orders set status = 'refunded'")
    shop.say("update orders set status = 'paid'")

    assert shop.plan().runs == 0


def test_a_deleted_row_skips_what_waits(shop: Shop) -> None:
    shop.follow()
    shop.order(1)
    shop.plan()

    shop.say("delete from orders")
    shop.plan()

    [job] = shop.jobs()
    assert (job.state, job.reason) == (State.SKIPPED, "its row was deleted")


def test_a_deletion_is_handed_over_with_the_last_values(shop: Shop) -> None:
    shop.follow(reaction(on_delete=True))
    shop.order(1, total=7)
    shop.plan()
    shop.work()

    shop.say("delete from orders")
    shop.plan()

    [told] = shop.work()
    assert (told.kind, told.key, told.values) == ("deleted", (1,), {"status": "paid", "total": 7})
    assert shop.plan().runs == 0


def test_a_changed_key_is_a_deletion_and_an_insertion(shop: Shop) -> None:
    shop.follow(reaction(on_delete=True))
    shop.order(1)
    shop.plan()
    shop.work()

    shop.say("update orders set id = 2")
    shop.plan()

    told = shop.work()
    assert sorted((facts.key, str(facts.kind)) for facts in told) == [((1,), "deleted"), ((2,), "changed")]


@pytest.mark.parametrize("verdict", [Fail("boom"), Skip("its condition no longer holds")])
def test_what_came_to_nothing_runs_again_at_the_next_change_of_the_row(
    shop: Shop, verdict: Fail | Skip
) -> None:
    shop.follow()
    shop.order(1)
    shop.plan()
    [claim] = shop.claim()
    shop.settle(claim, verdict)

    assert shop.plan().runs == 0
    shop.say("update orders set note = 'touched'")

    assert shop.plan().runs == 1


@pytest.mark.parametrize("verdict", [Fail("boom"), Skip("its condition no longer holds")])
def test_pruning_does_not_make_a_failure_look_well(
    shop: Shop, clock: VirtualClock, verdict: Fail | Skip
) -> None:
    shop.follow()
    shop.order(1)
    shop.plan()
    [claim] = shop.claim()
    shop.settle(claim, verdict)

    clock.advance("31d")
    shop.place.store.run(shop.place.store.prune(100))
    shop.say("update orders set note = 'touched'")

    assert shop.jobs() == []
    assert shop.plan().runs == 1


@pytest.mark.parametrize("verdict", [Fail("boom"), None], ids=["failed", "waiting"])
def test_deleting_a_job_does_not_make_it_look_well(shop: Shop, verdict: Fail | None) -> None:
    shop.follow()
    shop.order(1)
    shop.plan()
    if verdict is not None:
        [claim] = shop.claim()
        shop.settle(claim, verdict)

    shop.place.store.run(shop.place.store.amend(Selection(tasks=(TASK,)), Delete()))
    shop.say("update orders set note = 'touched'")

    assert shop.jobs() == []
    assert shop.plan().runs == 1


def test_deleting_what_went_well_changes_nothing(shop: Shop) -> None:
    shop.follow()
    shop.order(1)
    shop.plan()
    shop.work()

    shop.place.store.run(shop.place.store.amend(Selection(tasks=(TASK,)), Delete()))
    shop.say("update orders set note = 'touched'")

    assert shop.plan().runs == 0


def test_pruning_what_went_well_changes_nothing(shop: Shop, clock: VirtualClock) -> None:
    shop.follow()
    shop.order(1)
    shop.plan()
    shop.work()

    clock.advance("31d")
    shop.place.store.run(shop.place.store.prune(100))
    shop.say("update orders set note = 'touched'")

    assert shop.plan().runs == 0


def test_changed_data_resets_the_attempts(shop: Shop, clock: VirtualClock) -> None:
    shop.follow()
    shop.order(1)
    shop.plan()
    [claim] = shop.claim()
    shop.settle(claim, TryAgain(timedelta(hours=1), "boom"))

    shop.say("update orders set total = 11")
    shop.plan()

    [again] = shop.claim()
    assert again.attempt == 0
    assert facts_of(again).values == {"status": "paid", "total": 11}


def test_debounce_waits_for_a_row_to_rest_but_not_for_ever(shop: Shop, clock: VirtualClock) -> None:
    shop.follow(reaction(debounce=timedelta(seconds=10), max_wait=timedelta(seconds=25)))
    shop.order(1)
    shop.plan()

    for total in range(1, 4):
        clock.advance("8s")
        assert shop.work() == []
        shop.say(f"update orders set total = {total}")
        shop.plan()

    clock.advance("900ms")
    assert shop.work() == []
    clock.advance("100ms")
    [told] = shop.work()
    assert told.values == {"status": "paid", "total": 3}


def test_a_row_that_rests_runs_after_the_debounce(shop: Shop, clock: VirtualClock) -> None:
    shop.follow(reaction(debounce=timedelta(seconds=10), max_wait=timedelta(seconds=100)))
    shop.order(1)
    shop.plan()
    clock.advance("8s")
    shop.say("update orders set total = 2")
    shop.plan()

    clock.advance("9s")
    assert shop.work() == []
    clock.advance("1s")

    assert keys(shop.work()) == [1]


def test_two_tasks_follow_one_table_each_in_its_own_way(shop: Shop) -> None:
    everything = reaction(task="mirror", where=None, watch=None)
    shop.follow(reaction(), everything)

    shop.order(1, "new")
    shop.order(2)
    shop.plan()

    assert keys(shop.work(TASK)) == [2]
    assert keys(shop.work("mirror")) == [1, 2]
    shop.say("update orders set note = 'read' where id = 1")
    shop.plan()
    assert keys(shop.work("mirror")) == [1]
    assert shop.work(TASK) == []


def test_a_batch_takes_as_much_as_it_is_told(shop: Shop) -> None:
    shop.follow()
    with shop.place.user.transaction() as say:
        for number in range(25):
            say(f"insert into orders (id, status) values ({number}, 'paid')")

    planned = [shop.plan(limit=10) for _ in range(4)]

    assert [one.changes for one in planned] == [10, 10, 5, 0]
    assert keys(shop.work()) == list(range(25))


def test_what_is_rolled_back_never_happened(shop: Shop) -> None:
    shop.follow()

    with suppress(ZeroDivisionError), shop.place.user.transaction() as say:
        say("insert into orders (id, status) values (1, 'paid')")
        _ = 1 / 0
    with shop.place.user.transaction() as say:
        say("savepoint part")
        say("insert into orders (id, status) values (2, 'paid')")
        say("rollback to savepoint part")
        say("insert into orders (id, status) values (3, 'paid')")
    shop.settle_down()

    assert keys(shop.work()) == [3]


def test_upserts_are_like_updates(shop: Shop) -> None:
    shop.follow()
    shop.order(1)
    shop.plan()
    shop.work()

    shop.say(
        "insert into orders (id, status, total) values (1, 'paid', 99), (2, 'paid', 1) "
        "on conflict (id) do update set total = excluded.total"
    )
    shop.plan()

    assert keys(shop.work()) == [1, 2]
