"""failures: errors by their names; and jobs found, counted and amended by the name of their error."""

from __future__ import annotations

import pytest
from tests.contract.arrange import (
    HOUR,
    LEASE,
    MINUTE,
    SECOND,
    TASK,
    ask,
    claim,
    claim_one,
    delete,
    find,
    look,
    put_one,
    request,
    revive,
    settle,
    start,
)

from duly.fingerprints import fingerprint
from duly.job import Delivery, Keep, State
from duly.lifecycle import Again, Done, Fail, Skip, TryAgain
from duly.stores.contract import Cancel, Lane, Page, Revive, Selection, Store
from duly.stores.reports import FailureGroup
from duly.testing import VirtualClock
from duly.testing.clock import START

BOOM = "ValueError: no lease 7"
BOOM_TOO = "ValueError: no lease 8"
OTHER = "KeyError: 'x'"


def failures(store: Store, limit: int = 20) -> list[FailureGroup]:
    return store.run(store.failures(limit))


def fail(store: Store, name: str, error: str, task: str = TASK) -> None:
    put_one(store, request(id=name, task=task))
    [lent] = claim(store, ask(lanes=[Lane(task)])).claims
    settle(store, lent, Fail(error))


def test_a_failed_job_bears_the_name_of_its_error_and_its_time(store: Store, clock: VirtualClock) -> None:
    fail(store, "a", BOOM)

    job = look(store, "a")

    assert (job.fingerprint, job.failed_at) == (fingerprint(BOOM), START)


def test_a_job_without_an_error_has_no_such_name(store: Store) -> None:
    settle(store, start(store, request(id="a")), Done())

    job = look(store, "a")

    assert (job.fingerprint, job.failed_at) == (None, None)
    assert failures(store) == []


def test_errors_of_one_cause_are_one_group(store: Store, clock: VirtualClock) -> None:
    fail(store, "a", BOOM)
    clock.advance(MINUTE)
    fail(store, "b", BOOM_TOO, task="other")
    clock.advance(MINUTE)
    fail(store, "c", OTHER)

    newest, older = failures(store)

    assert (newest.fingerprint, newest.count, newest.tasks) == (fingerprint(OTHER), 1, ("send",))
    assert (older.fingerprint, older.count, older.tasks) == (fingerprint(BOOM), 2, ("other", "send"))
    assert (older.first_seen, older.last_seen) == (START, START + MINUTE)
    assert older.sample.id == "b"


def test_the_group_that_failed_last_comes_first_whatever_is_newer(store: Store, clock: VirtualClock) -> None:
    old = start(store, request(id="old"))
    fail(store, "new", OTHER)
    clock.advance(SECOND)
    settle(store, old, Fail(BOOM))

    assert [group.sample.id for group in failures(store)] == ["old", "new"]


def test_groups_of_one_moment_come_in_the_order_of_their_names(store: Store) -> None:
    names = ["A: x", "B: x", "C: x"]
    for name in names:
        fail(store, name, name)

    assert [group.fingerprint for group in failures(store)] == sorted(fingerprint(name) for name in names)


def test_no_more_groups_are_told_than_asked_for(store: Store, clock: VirtualClock) -> None:
    for name in ("A", "B", "C"):
        fail(store, name, f"{name}: x")
        clock.advance(SECOND)

    assert [group.sample.id for group in failures(store, limit=2)] == ["C", "B"]


def test_a_job_that_will_be_tried_again_is_in_the_group_of_its_last_error(
    store: Store, clock: VirtualClock
) -> None:
    lent = start(store, request(id="a"))
    settle(store, lent, TryAgain(SECOND, BOOM))
    [first] = failures(store)
    clock.advance(MINUTE)
    settle(store, claim_one(store), TryAgain(SECOND, OTHER))

    [second] = failures(store)

    assert (first.fingerprint, first.count) == (fingerprint(BOOM), 1)
    assert (second.fingerprint, second.last_seen) == (fingerprint(OTHER), START + MINUTE)
    assert find(store, Selection(fingerprint=fingerprint(BOOM))) == []


def test_success_after_a_failure_leaves_the_group(store: Store, clock: VirtualClock) -> None:
    settle(store, start(store, request(id="a")), TryAgain(SECOND, BOOM))
    clock.advance(MINUTE)
    settle(store, claim_one(store), Done())

    assert failures(store) == []
    assert find(store, Selection(fingerprint=fingerprint(BOOM))) == []
    assert look(store, "a").failed_at is None


def test_an_end_without_an_error_of_its_own_keeps_the_last_one(store: Store, clock: VirtualClock) -> None:
    settle(store, start(store, request(id="a")), TryAgain(SECOND, BOOM))
    clock.advance(MINUTE)
    settle(store, claim_one(store), Skip("nothing to do"))

    job = look(store, "a")

    assert (job.fingerprint, job.failed_at) == (fingerprint(BOOM), START)
    assert [group.count for group in failures(store)] == [1]


def test_a_job_that_expired_keeps_its_last_error(store: Store, clock: VirtualClock) -> None:
    settle(store, start(store, request(id="a", expires_after=MINUTE)), TryAgain(HOUR, BOOM))
    clock.advance(2 * HOUR)
    claim(store)

    assert look(store, "a").state is State.SKIPPED
    assert [group.sample.id for group in failures(store)] == ["a"]


def test_a_failed_cycle_of_a_perpetual_is_told(store: Store, clock: VirtualClock) -> None:
    settle(store, start(store, request("k", id="a", perpetual=True)), Again(after=HOUR, error=BOOM))

    assert [(group.sample.id, group.count) for group in failures(store)] == [("a", 1)]


def test_retrying_a_job_takes_it_out_of_its_group(store: Store) -> None:
    fail(store, "a", BOOM)
    fail(store, "b", BOOM)
    revive(store, "a")

    assert [(group.count, group.sample.id) for group in failures(store)] == [(1, "b")]
    assert look(store, "a").fingerprint is None


def test_deleting_and_pruning_take_jobs_out_of_their_group(store: Store, clock: VirtualClock) -> None:
    fail(store, "a", BOOM)
    fail(store, "b", BOOM)
    settle(store, start(store, request(id="c", keep=Keep(failed=HOUR))), Fail(OTHER))
    delete(store, "b")
    clock.advance(2 * HOUR)
    store.run(store.prune(100))

    assert [(group.count, group.sample.id) for group in failures(store)] == [(1, "a")]


DEATHS = {"at most once": (Delivery.AT_MOST_ONCE, 1), "in isolation": (Delivery.AT_LEAST_ONCE, 3)}


@pytest.mark.parametrize(("delivery", "times"), DEATHS.values(), ids=DEATHS)
def test_a_worker_that_was_not_heard_of_again_is_one_cause(
    store: Store, clock: VirtualClock, delivery: Delivery, times: int
) -> None:
    put_one(store, request(id="a", delivery=delivery))
    for number in range(times):
        lent = claim_one(store, f"mortal {number}")
        store.run(store.begin([lent.fence], isolated=True))
        clock.advance(LEASE + SECOND)
    claim(store, ask("survivor"))

    job = look(store, "a")

    assert job.state is State.FAILED
    assert job.error is not None
    assert job.fingerprint == fingerprint(job.error) == fingerprint(job.error.replace("host", "elsewhere"))
    assert [group.sample.id for group in failures(store)] == ["a"]


def test_jobs_are_found_counted_and_amended_by_the_name_of_their_error(store: Store) -> None:
    for name, error in (("a", BOOM), ("b", OTHER), ("c", BOOM_TOO)):
        fail(store, name, error)
    named = Selection(fingerprint=fingerprint(BOOM))

    found = [job.id for job in find(store, named)]
    second = [job.id for job in store.run(store.find(named, Page(1, before=look(store, "c").generation)))]
    number = store.run(store.count(named))
    answers = store.run(store.amend(named, Revive(), by="ann"))

    assert (found, second, number) == (["c", "a"], ["a"], 2)
    assert sorted(answer.id for answer in answers) == ["a", "c"]
    assert look(store, "b").state is State.FAILED


NARROWED = {
    "state": (Selection(fingerprint=fingerprint(BOOM), states=(State.WAITING,)), {"waiting"}),
    "task": (Selection(fingerprint=fingerprint(BOOM), tasks=("other",)), {"other"}),
    "id": (Selection(fingerprint=fingerprint(BOOM), ids=("a", "b")), {"a"}),
    "key": (Selection(fingerprint=fingerprint(BOOM), key="k"), {"keyed"}),
    "part of the text": (Selection(fingerprint=fingerprint(BOOM), error="lease 8"), {"other"}),
    "nobody": (Selection(fingerprint="nobody's"), set[str]()),
    "no name": (Selection(fingerprint=""), set[str]()),
}


@pytest.mark.parametrize(("selection", "expected"), NARROWED.values(), ids=NARROWED)
def test_the_name_of_an_error_goes_with_other_filters(
    store: Store, selection: Selection, expected: set[str]
) -> None:
    fail(store, "a", BOOM)
    fail(store, "b", OTHER)
    fail(store, "other", BOOM_TOO, task="other")
    settle(store, start(store, request("k", id="keyed")), Fail(BOOM))
    settle(store, start(store, request(id="waiting")), TryAgain(HOUR, BOOM))

    assert {job.id for job in find(store, selection)} == expected
    assert store.run(store.count(selection)) == len(expected)


def test_cancelling_by_name_reaches_what_waits_to_be_tried_again(store: Store) -> None:
    fail(store, "failed", BOOM)
    settle(store, start(store, request(id="waiting")), TryAgain(HOUR, BOOM))
    named = Selection(fingerprint=fingerprint(BOOM), states=(State.WAITING,))

    [answer] = store.run(store.amend(named, Cancel()))

    assert (answer.id, answer.took_effect) == ("waiting", True)
