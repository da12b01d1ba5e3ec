"""locks: one holder at a time, a token that rises, an end that a stepped clock does not move."""

from __future__ import annotations

from datetime import timedelta

from tests.contract.arrange import HOUR, MINUTE, SECOND

from duly.stores.contract import Grip, Store
from duly.testing import VirtualClock

NAME = "account:7"


def grip(store: Store, owner: str = "a", *, name: str = NAME, ttl: timedelta = MINUTE) -> Grip | None:
    return store.run(store.grip(name, owner, ttl))


def held(store: Store, owner: str = "a", *, name: str = NAME) -> Grip:
    taken = grip(store, owner, name=name)
    assert taken is not None
    return taken


def test_a_free_lock_is_taken(store: Store) -> None:
    assert held(store).name == NAME


def test_a_held_lock_is_refused_also_to_its_holder(store: Store) -> None:
    held(store, "a")

    assert grip(store, "b") is None
    assert grip(store, "a") is None


def test_locks_of_other_names_do_not_meet(store: Store) -> None:
    held(store, "a")

    assert held(store, "b", name="account:8")


def test_a_lock_that_was_let_go_is_free(store: Store) -> None:
    first = held(store, "a")

    assert store.run(store.let_go(first))
    assert held(store, "b")


def test_the_token_rises_with_every_acquisition(store: Store, clock: VirtualClock) -> None:
    tokens: list[int] = []
    for number in range(5):
        taken = held(store, f"owner {number}")
        tokens.append(taken.token)
        if number % 2:
            store.run(store.let_go(taken))
        else:
            clock.advance(MINUTE)

    assert tokens == sorted(set(tokens))


def test_a_lock_ends_by_itself_to_the_instant(store: Store, clock: VirtualClock) -> None:
    held(store, "a")

    clock.advance(MINUTE - timedelta(milliseconds=1))
    early = grip(store, "b")
    clock.advance(timedelta(milliseconds=1))

    assert early is None
    assert held(store, "b")


def test_a_lock_can_be_kept(store: Store, clock: VirtualClock) -> None:
    taken = held(store, "a")
    clock.advance(MINUTE - SECOND)

    assert store.run(store.keep_grip(taken, MINUTE))

    clock.advance(MINUTE - SECOND)
    assert grip(store, "b") is None


def test_a_lock_taken_by_another_is_lost_for_good(store: Store, clock: VirtualClock) -> None:
    late = held(store, "a")
    clock.advance(MINUTE)
    fresh = held(store, "b")

    assert not store.run(store.keep_grip(late, HOUR))
    assert not store.run(store.let_go(late))
    assert store.run(store.keep_grip(fresh, MINUTE))
    assert store.run(store.let_go(fresh))


def test_a_lock_cannot_be_let_go_twice(store: Store) -> None:
    taken = held(store)
    store.run(store.let_go(taken))

    assert not store.run(store.let_go(taken))
    assert not store.run(store.keep_grip(taken, MINUTE))


def test_a_step_of_the_wall_clock_neither_ends_nor_prolongs_a_lock(store: Store, clock: VirtualClock) -> None:
    held(store, "a")

    clock.step_wall(365 * timedelta(days=1))
    after_step_forward = grip(store, "b")
    clock.step_wall(-730 * timedelta(days=1))
    after_step_back = grip(store, "b")
    clock.advance(MINUTE)

    assert (after_step_forward, after_step_back) == (None, None)
    assert held(store, "b")
