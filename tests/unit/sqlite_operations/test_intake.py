"""Requests made inside the caller's own transaction."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.sqlite_operations.arrange import SECOND, TASK, done, job, lend, request
from tests.unit.sqlite_operations.driver import PlainStore

from duly.job import Clash, Decision, Delivery, Guard, Keep, Overlap, Request, State
from duly.stores.contract import Cancel, Order, Page, Selection, WorkerCard
from duly.stores.tables.requests import decode, encode
from duly.testing import VirtualClock
from duly.testing.clock import START


def offered(store: PlainStore, *requests: Request) -> list[Decision]:
    return [placed.decision for placed in store.run(store.offer(requests))]


def test_a_request_without_a_key_is_stored_at_once(store: PlainStore) -> None:
    wanted = request()

    assert offered(store, wanted) == [Decision.CREATED]
    assert [claim.id for claim in lend(store)] == [wanted.id]


def test_a_request_with_a_key_is_pending_until_the_engine_looks(store: PlainStore) -> None:
    wanted = request(key="k")

    assert offered(store, wanted) == [Decision.PENDING]
    assert [claim.id for claim in lend(store)] == [wanted.id]


def test_what_is_rolled_back_was_never_asked_for(store: PlainStore) -> None:
    store.connection.execute("begin")
    store.perform(store.offer([request(key="k"), request()]))
    store.connection.execute("rollback")

    assert lend(store) == []


def test_pending_requests_meet_each_other_in_the_order_of_their_making(store: PlainStore) -> None:
    first, second = request(key="k"), request(key="k", arguments="[2]")
    offered(store, first)
    offered(store, second)

    [claim] = lend(store)

    assert (claim.id, claim.arguments) == (first.id, "[2]")


def test_a_delay_counts_from_the_offer(store: PlainStore, clock: VirtualClock) -> None:
    wanted = request(key="k", delay=10 * SECOND, expires_after=60 * SECOND)
    offered(store, wanted)
    clock.advance(4 * SECOND)

    lend(store)

    placed = job(store, wanted.id)
    assert placed.ready_at == START + 10 * SECOND
    assert placed.expires_at == START + 60 * SECOND
    assert placed.created_at == START


def test_a_guard_counts_from_the_offer(store: PlainStore, clock: VirtualClock) -> None:
    offered(store, request(key="k", guard=Guard(10 * SECOND)))
    clock.advance(4 * SECOND)
    claims = lend(store)
    store.run(store.settle("w1", done(claims)))
    clock.advance(7 * SECOND)

    [late] = store.run(store.put([request(key="k", guard=Guard(10 * SECOND))]))

    assert late.decision is Decision.CREATED


@pytest.mark.parametrize("by", ["id", "key"])
def test_a_pending_request_can_be_looked_up(store: PlainStore, by: str) -> None:
    wanted = request(key="k", queue="slow")
    offered(store, wanted)
    selection = Selection(ids=(wanted.id,)) if by == "id" else Selection(key="k")

    [found] = store.run(store.find(selection, Page()))

    assert (found.id, found.state, found.reason) == (wanted.id, State.WAITING, "pending")
    assert store.run(store.find(replace(selection, queues=("default",)), Page())) == []
    assert store.run(store.find(replace(selection, states=(State.DONE,)), Page())) == []


def test_an_offer_repeated_because_its_answer_was_lost_changes_nothing(store: PlainStore) -> None:
    wanted = request(key="k")
    offered(store, wanted)

    assert offered(store, wanted) == [Decision.PENDING]
    assert len(lend(store)) == 1
    assert offered(store, wanted) == [Decision.KEPT]
    assert lend(store) == []


def test_a_beat_tells_a_run_of_the_pending_request_that_replaces_it(
    store: PlainStore, clock: VirtualClock
) -> None:
    store.run(store.put([request(key="k")]))
    [claim] = lend(store)
    offered(store, request(key="k", clash=Clash.REPLACE))
    card = WorkerCard("w1", "w1", "host", 1, clock.now())

    renewal = store.run(store.renew(card, [claim.fence], 30 * SECOND))

    assert renewal.orders == {claim.fence: Order.SUPERSEDED}


def test_an_order_reaches_a_pending_request(store: PlainStore) -> None:
    wanted = request(key="k")
    offered(store, wanted)

    [answer] = store.run(store.amend(Selection(ids=(wanted.id,)), Cancel()))

    assert answer.took_effect
    assert lend(store) == []


def test_a_put_comes_after_what_was_offered_before(store: PlainStore) -> None:
    first = request(key="k")
    offered(store, first)

    [placed] = store.run(store.put([request(key="k")]))

    assert (placed.id, placed.decision) == (first.id, Decision.KEPT)


def test_a_request_survives_being_written_down() -> None:
    bare = request()
    full = Request(
        id="job-1",
        task=TASK,
        arguments='["é\\u0000"]',
        queue="slow",
        priority=-7,
        key="k",
        serial="s",
        run_after=START,
        delay=timedelta(microseconds=1),
        expires_after=timedelta(days=400),
        clash=Clash.SEED,
        overlap=Overlap.ALLOW,
        per_key=3,
        guard=Guard(SECOND, trailing=True),
        delivery=Delivery.EXACTLY_ONCE,
        keep=Keep(SECOND, 2 * SECOND),
        perpetual=True,
        tick=START,
        context='{"a": "\ud83d"}',
    )

    assert decode(encode(full)) == full
    assert decode(encode(bare)) == bare
