"""offer: requests inside the caller's own transaction; keys and guards are applied by the engine later.

A store that can apply the rules at once may do so: what counts is how it stands at the next claim.
"""

from __future__ import annotations

import pytest
from tests.contract.arrange import (
    HOUR,
    KEY,
    MINUTE,
    TASK,
    cancel,
    claim,
    claim_all,
    claim_one,
    find,
    ids,
    look,
    put_one,
    replacing,
    request,
    settle,
    start,
    state,
    waiting,
)

from duly.errors import WrongConnection
from duly.job import Decision, Guard, Overlap, Request, State
from duly.lifecycle import Release, Settled
from duly.stores.contract import Placed, Selection, Store
from duly.testing import VirtualClock


def offer(store: Store, *requests: Request) -> list[Placed]:
    return store.run(store.offer(requests))


def test_an_unkeyed_offer_is_a_job_at_once(store: Store) -> None:
    wanted = request()

    [placed] = offer(store, wanted)

    assert placed == (wanted.id, look(store, wanted.id).generation, Decision.CREATED)
    assert claim_one(store).id == wanted.id


def test_a_keyed_offer_is_pending_or_placed_and_lent_by_the_next_claim(store: Store) -> None:
    wanted = request(KEY, arguments="[[1],{}]")
    waits_for_commit = store.url.startswith(
        ("sqlite", "postgresql")
    )  # its users must not wait for each other

    [placed] = offer(store, wanted)

    assert placed.id == wanted.id
    assert placed.decision is (Decision.PENDING if waits_for_commit else Decision.CREATED)
    lent = claim_one(store)
    assert (lent.id, lent.arguments) == (wanted.id, "[[1],{}]")


def test_an_offer_can_be_found_before_the_engine_placed_it(store: Store) -> None:
    wanted = request(KEY)
    offer(store, wanted)

    assert [job.id for job in find(store, Selection(ids=(wanted.id,)))] == [wanted.id]
    assert state(store, wanted.id) is State.WAITING


def test_two_offers_for_one_key_become_one_job_with_the_latest_arguments(store: Store) -> None:
    offer(store, request(KEY, arguments="[[1],{}]"))
    offer(store, request(KEY, arguments="[[2],{}]"))

    lent = claim_one(store)

    assert lent.arguments == "[[2],{}]"


def test_an_offer_for_a_running_key_waits_behind_it(store: Store) -> None:
    older = start(store, request(KEY))
    wanted = request(KEY)
    offer(store, wanted)

    behind = claim_all(store, "w2")
    settle(store, older)

    assert behind == []
    assert claim_one(store, "w2").id == wanted.id


def test_an_offer_that_replaces_supersedes_the_run_at_its_settle(store: Store) -> None:
    older = start(store, request(KEY))
    wanted = replacing(KEY)
    offer(store, wanted)

    assert settle(store, older) is Settled.SUPERSEDED
    assert claim_one(store).id == wanted.id


def test_an_offer_absorbs_the_retry_of_the_run_before_it(store: Store) -> None:
    older = start(store, request(KEY))
    wanted = request(KEY)
    offer(store, wanted)

    settle(store, older, Release(HOUR))

    assert state(store, older.id) is State.CANCELLED
    assert [job.id for job in waiting(store)] == [wanted.id]


def test_an_offer_under_a_guard_is_kept_back_within_the_window(store: Store) -> None:
    first = put_one(store, request(KEY, guard=Guard(MINUTE)))
    offer(store, request(KEY, guard=Guard(MINUTE)))

    assert ids(claim_all(store)) == [first.id]
    assert store.run(store.census()).suppressed == 1


def test_an_offer_for_a_running_key_may_be_skipped(store: Store) -> None:
    older = start(store, request(KEY, overlap=Overlap.SKIP))
    offer(store, request(KEY, overlap=Overlap.SKIP))
    claim_all(store)

    settle(store, older)

    assert claim_all(store) == []


def test_an_offer_is_due_from_the_moment_it_was_made(store: Store, clock: VirtualClock) -> None:
    wanted = request(KEY, delay=MINUTE)
    offer(store, wanted)
    clock.advance(MINUTE)

    lent = claim_one(store)

    assert (lent.id, lent.due) == (wanted.id, clock.now())


def test_next_at_sees_an_offer(store: Store, clock: VirtualClock) -> None:
    offer(store, request(KEY, delay=MINUTE))

    assert claim(store).next_at == clock.now() + MINUTE


def test_an_offer_can_be_cancelled_before_the_engine_placed_it(store: Store) -> None:
    wanted = request(KEY)
    offer(store, wanted)

    assert cancel(store, wanted.id).took_effect
    assert claim_all(store) == []


def test_an_offer_with_the_id_of_a_known_job_is_that_job(store: Store) -> None:
    wanted = request(KEY)
    placed = put_one(store, wanted)

    [again] = offer(store, wanted)

    assert again == (placed.id, placed.generation, Decision.KEPT)


def test_offers_keep_their_order_among_requests_that_were_put(store: Store) -> None:
    first = request("a")
    offer(store, first)
    second = put_one(store, request("b"))

    assert look(store, first.id).task == TASK
    assert look(store, second.id).generation > look(store, first.id).generation
    assert ids(claim_all(store)) == [first.id, second.id]


def test_a_connection_that_is_not_to_the_stores_database_is_refused(store: Store) -> None:
    with pytest.raises(WrongConnection):
        store.run_on(object(), store.offer([request()]))
    assert find(store) == []
