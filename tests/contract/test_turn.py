"""turn: settle and claim in one transaction, the claim seeing what the settle freed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.contract.arrange import (
    HOUR,
    KEY,
    LEASE,
    SECOND,
    TASK,
    ask,
    claim_all,
    ids,
    put,
    put_one,
    replacing,
    request,
    settle,
    start,
    state,
)

from duly.job import State
from duly.lifecycle import Again, Done, Release, Settled
from duly.stores.contract import Lane, Settlement, Store
from duly.stores.memory.store import MemoryStore
from duly.testing import VirtualClock


def test_a_turn_settles_and_lends(store: Store) -> None:
    put(store, request(), request(), request())
    first = claim_all(store, limit=1)

    turned = store.run(store.turn([Settlement(first[0].fence, Done())], ask(limit=1)))

    assert turned.answers == [Settled.SETTLED]
    assert len(turned.claimed.claims) == 1
    assert state(store, first[0].id) is State.DONE


def test_the_caller_has_something_to_do_while_the_store_is_at_work(store: Store) -> None:
    done: list[str] = []
    put(store, request(), request())
    first = claim_all(store, limit=1)

    turn = store.turn([Settlement(first[0].fence, Done())], ask(limit=1))
    turned = store.run(replace(turn, meanwhile=lambda: done.append("in the meantime")))

    assert turned.answers == [Settled.SETTLED]
    assert len(turned.claimed.claims) == 1
    has_to_wait = not isinstance(store, MemoryStore)
    assert bool(done) is has_to_wait


@pytest.mark.parametrize(
    ("foreseen", "meant"),
    [("ab", "ab"), ("ab", "abcd"), ("ab", "cabd"), ("abcd", "ab"), ("ab", "cd"), ("", "a")],
)
def test_what_was_foreseen_is_a_hint_and_no_more(store: Store, foreseen: str, meant: str) -> None:
    """Whatever the worker settles in the end is what counts; some of them with something to keep."""
    put(store, *(request() for _ in range(6)))
    for known in claim_all(store, limit=2):  # now the store knows worker and lane
        settle(store, known)
    claims = dict(zip("abcd", claim_all(store, limit=4), strict=True))
    settlements = {name: Settlement(claim.fence, Done()) for name, claim in claims.items()}
    settlements["d"] = Settlement(claims["d"].fence, Done("42", HOUR))

    store.foresee([settlements[name] for name in foreseen[:1]])
    store.foresee([settlements[name] for name in foreseen])
    turned = store.run(store.turn([settlements[name] for name in meant], ask()))

    assert turned.answers == [Settled.SETTLED] * len(meant)
    ended = {name for name, claim in claims.items() if state(store, claim.id) is State.DONE}
    assert ended == set(meant)


def test_what_was_foreseen_under_a_lost_lease_is_refused(store: Store, clock: VirtualClock) -> None:
    late = [Settlement(start(store, request()).fence, Done())]
    store.foresee(late)
    clock.advance(2 * LEASE)
    claim_all(store, "w2")

    turned = store.run(store.turn(late, ask()))

    assert turned.answers == [Settled.LOST]


def test_a_turn_lends_what_its_own_settle_made_ready(store: Store) -> None:
    older = start(store, request(KEY))
    queued = put_one(store, request(KEY))

    turned = store.run(store.turn([Settlement(older.fence, Done())], ask()))

    assert ids(turned.claimed.claims) == [queued.id]


def test_a_turn_lends_the_follow_up_of_its_own_settle(store: Store) -> None:
    older = start(store, request())
    follow_up = request("next")

    turned = store.run(store.turn([Settlement(older.fence, Done(), then=(follow_up,))], ask()))

    assert ids(turned.claimed.claims) == [follow_up.id]


def test_a_turn_lends_the_next_cycle_under_a_new_epoch(store: Store) -> None:
    older = start(store, request(KEY, perpetual=True))

    turned = store.run(store.turn([Settlement(older.fence, Again())], ask()))

    [lent] = turned.claimed.claims
    assert (lent.id, lent.epoch, lent.cycle) == (older.id, older.epoch + 1, older.cycle + 1)
    assert settle(store, older) is Settled.LOST


def test_a_turn_makes_room_under_a_limit(store: Store) -> None:
    put(store, request(), request())
    lane = Lane(TASK, concurrency=1)
    [first] = store.run(store.claim(ask(lanes=[lane]))).claims

    turned = store.run(store.turn([Settlement(first.fence, Done())], ask(lanes=[lane])))

    assert len(turned.claimed.claims) == 1


def test_a_turn_answers_every_settlement_in_order(store: Store, clock: VirtualClock) -> None:
    put(store, request(), request(KEY))
    lost, replaced = claim_all(store)
    settle(store, lost, Release())
    put_one(store, replacing(KEY))

    turned = store.run(
        store.turn([Settlement(replaced.fence, Done()), Settlement(lost.fence, Done())], ask(limit=0))
    )

    assert turned.answers == [Settled.SUPERSEDED, Settled.LOST]
    assert turned.claimed.claims == []


def test_a_turn_with_nothing_to_settle_is_a_claim(store: Store) -> None:
    placed = put_one(store, request())

    turned = store.run(store.turn([], ask()))

    assert (turned.answers, ids(turned.claimed.claims)) == ([], [placed.id])


def test_a_turn_takes_over_from_the_dead(store: Store, clock: VirtualClock) -> None:
    lost = start(store, request(), "w1")
    clock.advance(LEASE + SECOND)

    turned = store.run(store.turn([], ask("w2")))

    assert ids(turned.claimed.claims) == [lost.id]


async def test_a_turn_can_be_awaited(store: Store) -> None:
    placed = put_one(store, request())

    turned = await store.arun(store.turn([], ask()))

    [lent] = turned.claimed.claims
    assert lent.id == placed.id
    assert await store.arun(store.settle("w1", [Settlement(lent.fence, Done())])) == [Settled.SETTLED]
