"""Ends and loans travel in groups of what they have in common, and nothing gets mixed up on the way."""

from __future__ import annotations

from datetime import timedelta

from tests.contract.arrange import ask, claim_all, look, put, request, revive, settle

from duly.lifecycle import Done, Settled
from duly.stores.contract import Settlement
from duly.stores.redis import RedisStore
from duly.testing import VirtualClock


def test_ends_of_several_claims_and_starts_are_each_recorded_as_their_own(
    store: RedisStore, clock: VirtualClock
) -> None:
    put(store, *(request(id=f"j{number}") for number in range(6)))
    lent = [claim for _ in range(3) for claim in claim_all(store, limit=2)]
    starts = [None if number == 3 else clock.now() + timedelta(seconds=number // 4) for number in range(6)]
    mixed = [lent[place] for place in (0, 2, 1, 5, 4, 3)]
    ends = [Settlement(one.fence, Done(), started) for one, started in zip(mixed, starts, strict=True)]
    ends[4] = ends[4]._replace(fence=ends[4].fence._replace(nonce="another's"))

    answers = store.run(store.turn(ends, ask())).answers

    assert answers == [*[Settled.SETTLED] * 4, Settled.LOST, Settled.SETTLED]
    assert [[line.started_at for line in look(store, f"j{place}").history] for place in (0, 2, 1, 5, 3)] == [
        [starts[place]] for place in (0, 1, 2, 3, 5)
    ]


def test_claims_that_differ_in_what_others_share_come_back_as_they_were_put(store: RedisStore) -> None:
    keys = [None, None, "a", "b", None]
    put(store, *(request(key, id=f"j{place}", arguments=f"[{place}]") for place, key in enumerate(keys)))

    lent = claim_all(store)

    assert [(one.id, one.key, one.arguments) for one in lent] == [
        (f"j{place}", key, f"[{place}]") for place, key in enumerate(keys)
    ]


def test_what_is_known_of_a_run_that_just_ended_is_all_that_is_ever_told_of_it(
    store: RedisStore, clock: VirtualClock
) -> None:
    put(store, request(id="j"))
    [lent] = claim_all(store)
    store.run(store.settle("w1", [Settlement(lent.fence, Done(), clock.now())]))
    [told] = look(store, "j").history

    clock.advance(timedelta(seconds=1))
    revive(store, "j")
    [again] = claim_all(store, "w2")
    settle(store, again, worker="w2")

    lines = look(store, "j").history
    assert lines[0] == told
    assert (told.event, told.epoch, told.worker, told.started_at) == ("done", 1, "w1", lent.due)
    assert [line.event for line in lines if line.worker == "w2"] == ["done"]
