"""put under a duplicate guard: one accepted request per window, and no update lost when asked."""

from __future__ import annotations

from typing import Final

import pytest
from tests.contract.arrange import (
    HOUR,
    KEY,
    MINUTE,
    SECOND,
    beat,
    claim_all,
    claim_one,
    delete,
    find,
    put_one,
    replacing,
    request,
    settle,
    start,
    state,
    waiting,
)

from duly.job import Decision, Guard, State
from duly.lifecycle import Again, Defer, Release, Settled, TryAgain, Verdict
from duly.stores.contract import Store
from duly.testing import VirtualClock

GUARD: Final = Guard(2 * MINUTE)
TRAILING: Final = Guard(2 * MINUTE, trailing=True)


def test_within_the_window_a_further_request_is_kept_back_and_counted(store: Store) -> None:
    first = put_one(store, request(KEY, guard=GUARD, arguments="[[1],{}]"))

    second = put_one(store, request(KEY, guard=GUARD, arguments="[[2],{}]"))

    [job] = waiting(store)
    assert second == (first.id, first.generation, Decision.KEPT)
    assert job.arguments == "[[1],{}]"
    assert store.run(store.census()).suppressed == 1


def test_the_window_holds_while_the_job_runs(store: Store) -> None:
    first = start(store, request(KEY, guard=GUARD))

    second = put_one(store, request(KEY, guard=GUARD))

    assert second == (first.id, first.generation, Decision.KEPT)
    assert waiting(store) == []


def test_the_window_holds_after_the_job_is_done(store: Store) -> None:
    first = start(store, request(KEY, guard=GUARD))
    settle(store, first)

    second = put_one(store, request(KEY, guard=GUARD))

    assert (second.id, second.decision) == (first.id, Decision.KEPT)
    assert claim_all(store) == []


def test_the_window_holds_after_the_job_was_deleted(store: Store) -> None:
    first = put_one(store, request(KEY, guard=GUARD))
    delete(store, first.id)

    assert put_one(store, request(KEY, guard=GUARD)).decision is Decision.KEPT
    assert find(store) == []


def test_the_window_ends_to_the_instant(store: Store, clock: VirtualClock) -> None:
    settle(store, start(store, request(KEY, guard=GUARD)))

    clock.advance(GUARD.window - SECOND)
    inside = put_one(store, request(KEY, guard=GUARD))
    clock.advance(SECOND)
    outside = put_one(store, request(KEY, guard=GUARD))

    assert (inside.decision, outside.decision) == (Decision.KEPT, Decision.CREATED)


def test_a_request_kept_back_does_not_make_the_window_longer(store: Store, clock: VirtualClock) -> None:
    settle(store, start(store, request(KEY, guard=GUARD)))
    clock.advance(GUARD.window / 2)
    put_one(store, request(KEY, guard=GUARD))

    clock.advance(GUARD.window / 2)

    assert put_one(store, request(KEY, guard=GUARD)).decision is Decision.CREATED


def test_a_window_guards_its_own_key_only(store: Store) -> None:
    put_one(store, request(KEY, guard=GUARD))

    assert put_one(store, request("lease:43", guard=GUARD)).decision is Decision.CREATED
    assert put_one(store, request(KEY, task="receive", guard=GUARD)).decision is Decision.CREATED


def test_a_request_that_asks_for_no_guard_is_not_kept_back(store: Store) -> None:
    settle(store, start(store, request(KEY, guard=GUARD)))

    assert put_one(store, request(KEY)).decision is Decision.CREATED


def test_replace_passes_the_window_and_opens_a_new_one(store: Store, clock: VirtualClock) -> None:
    first = put_one(store, request(KEY, guard=GUARD))
    clock.advance(MINUTE)

    second = put_one(store, replacing(guard=GUARD))
    clock.advance(MINUTE + SECOND)
    third = put_one(store, request(KEY, guard=GUARD))

    assert second.decision is Decision.REPLACED
    assert state(store, first.id) is State.CANCELLED
    assert (third.id, third.decision) == (second.id, Decision.KEPT)


# --- trailing -----------------------------------------------------------------------------------


def test_trailing_leaves_one_job_due_at_the_end_of_the_window_with_the_latest_arguments(
    store: Store, clock: VirtualClock
) -> None:
    opened_at = clock.now()
    settle(store, start(store, request(KEY, guard=TRAILING)))
    clock.advance(MINUTE)

    placed = [
        put_one(store, request(KEY, guard=TRAILING, arguments=f"[[{number}],{{}}]")) for number in range(3)
    ]

    [last] = waiting(store)
    assert [answer.decision.value for answer in placed] == ["created", "kept", "kept"]
    assert last.ready_at == opened_at + TRAILING.window
    assert last.arguments == "[[2],{}]"


def test_the_trailing_job_runs_at_the_end_of_the_window_and_not_before(
    store: Store, clock: VirtualClock
) -> None:
    settle(store, start(store, request(KEY, guard=TRAILING)))
    trailing = put_one(store, request(KEY, guard=TRAILING))

    clock.advance(TRAILING.window - SECOND)
    early = claim_all(store)
    clock.advance(SECOND)

    assert early == []
    assert claim_one(store).id == trailing.id


def test_trailing_while_the_first_still_runs_waits_for_it_and_for_the_window(
    store: Store, clock: VirtualClock
) -> None:
    opened_at = clock.now()
    first = start(store, request(KEY, guard=TRAILING))
    trailing = put_one(store, request(KEY, guard=TRAILING))
    clock.advance(TRAILING.window)
    beat(store, first)

    behind_the_run = claim_all(store)
    settle(store, first)
    lent = claim_one(store)

    assert trailing.decision is Decision.QUEUED
    assert behind_the_run == []
    assert (lent.id, lent.due) == (trailing.id, opened_at + TRAILING.window)


# --- a run that asks for its own, guarded key ---------------------------------------------------


@pytest.mark.parametrize(
    "verdict", [TryAgain(HOUR, "boom"), Defer(HOUR), Release(HOUR), Again(after=HOUR)], ids=repr
)
def test_a_runs_own_request_that_is_kept_back_does_not_swallow_what_the_run_left_undone(
    store: Store, verdict: Verdict
) -> None:
    lent = start(store, request(KEY, guard=GUARD))

    answer = settle(store, lent, verdict, then=[request(KEY, guard=GUARD)])

    assert answer is Settled.SETTLED
    [job] = waiting(store)
    assert job.id == lent.id
