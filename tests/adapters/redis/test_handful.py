"""The short way of a claim lends and writes what the whole one does, and knows what is not for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import redis
from tests.adapters.redis.test_straight import everything
from tests.contract.arrange import (
    KEY,
    LEASE,
    MINUTE,
    SECOND,
    TASK,
    ask,
    beat,
    claim_all,
    claim_one,
    put,
    request,
    settle,
)
from tests.servers_redis import connected_to, namespace_of, shared_url

from duly.job import Delivery
from duly.lifecycle import Release
from duly.stores.contract import Ask, Claimed, Lane, Rate, Scope, Switch
from duly.stores.redis import RedisStore
from duly.stores.redis.address import parse
from duly.stores.redis.packing import Asks, encoded
from duly.stores.redis.scripts import SHORT, assembled
from duly.testing import VirtualClock

NONCE: Final = "0" * 16
MOST: Final = 16
Scene = Callable[[RedisStore, VirtualClock], Any]


def jobs(count: int) -> list[Any]:
    return [request(id=f"j{number}") for number in range(1, count + 1)]


def more(count: int) -> list[Any]:
    return [request(id=f"m{number}") for number in range(1, count + 1)]


def handed_back(store: RedisStore) -> None:
    put(store, request(id="j1"))
    settle(store, claim_one(store), Release(note="the worker is stopping"))


def lent_to_another(store: RedisStore) -> None:
    beat(store, worker="w2")
    put(store, *jobs(1))
    claim_all(store, "w2")
    put(store, *more(1))


def lose(store: RedisStore, clock: VirtualClock) -> None:
    lent_to_another(store)
    clock.advance(LEASE)
    beat(store)


def too_late(store: RedisStore, clock: VirtualClock) -> None:
    put(store, *jobs(1), request(task="other", expires_after=SECOND))
    clock.advance(SECOND)


def pause(store: RedisStore) -> None:
    put(store, *jobs(1))
    store.run(store.hold(Switch(Scope.QUEUE, "elsewhere", None)))


def lost_by_hand(store: RedisStore) -> None:
    put(store, *jobs(1))
    with connected_to(store.url) as client:
        client.hdel(f"{prefix_of(store)}state", "j1")


def move(store: RedisStore) -> None:
    put(store, *jobs(1))
    with connected_to(store.url) as client:
        client.hset(f"{prefix_of(store)}house", "stage", "sealed")


def prefix_of(store: RedisStore) -> str:
    return f"{{{store.describe()['namespace']}}}:"


PLAIN: Final[dict[str, tuple[Scene, Ask]]] = {
    "nothing": (lambda _store, _clock: None, ask()),
    "one": (lambda store, _: put(store, request(id="é", arguments='[["é\\u0000"],{}]')), ask()),
    "some": (lambda store, _: put(store, *jobs(MOST)), ask()),
    "more than wanted": (lambda store, _: put(store, *jobs(5)), ask(limit=3)),
    "as many as wanted": (lambda store, _: put(store, *jobs(3)), ask(limit=3)),
    "later in the lane": (lambda store, _: put(store, *jobs(1), request(id="l", delay=MINUTE)), ask()),
    "later elsewhere": (
        lambda store, _: put(
            store,
            *jobs(1),
            request(id="far", task="other", delay=MINUTE),
            request(id="unknown", task="unknown", delay=SECOND),
        ),
        ask(lanes=[Lane(TASK), Lane("other")]),
    ),
    "another's queue": (
        lambda store, _: put(store, *jobs(1), request(id="its", queue="mail")),
        ask(queues=frozenset({"default"})),
    ),
    "on any queue": (
        lambda store, _: put(store, request(id="its", queue="mail", priority=-3)),
        ask(lanes=[Lane(TASK, on_any_queue=True)], queues=frozenset({"default"})),
    ),
    "a tick": (lambda store, clock: put(store, request(id="t", tick=clock.now())), ask()),
    "again": (lambda store, _: handed_back(store), ask()),
    "beside a loan": (lambda store, _: (put(store, *jobs(1)), claim_all(store), put(store, *more(2))), ask()),
    "another's loan": (lambda store, _: lent_to_another(store), ask()),
    "gone, not taken over": (lose, ask(takes_over=False)),
}
OTHER: Final[dict[str, tuple[Scene, Ask]]] = {
    "too many": (lambda store, _: put(store, *jobs(MOST + 1)), ask()),
    "nothing wanted": (lambda store, _: put(store, *jobs(1)), ask(limit=0)),
    "a key": (lambda store, _: put(store, request(KEY)), ask()),
    "an expiry behind": (lambda store, _: put(store, *jobs(1), request(expires_after=MINUTE)), ask()),
    "at most once": (lambda store, _: put(store, request(delivery=Delivery.AT_MOST_ONCE)), ask()),
    "too late": (too_late, ask()),
    "a limit": (lambda store, _: put(store, *jobs(1)), ask(lanes=[Lane(TASK, concurrency=5)])),
    "a rate": (lambda store, _: put(store, *jobs(1)), ask(lanes=[Lane(TASK, rate=Rate(1, SECOND))])),
    "two lanes": (lambda store, _: put(store, *jobs(1), request(priority=5)), ask()),
    "a pause": (lambda store, _: pause(store), ask()),
    "a move": (lambda store, _: move(store), ask()),
    "no lease": (lambda store, _: put(store, *jobs(1)), ask("w3")),
    "lease over": (lambda store, clock: (put(store, *jobs(1)), clock.advance(LEASE)), ask()),
    "gone": (lose, ask()),
    "a job that is gone": (lambda store, _: lost_by_hand(store), ask()),
}


def undecoded(url: str) -> Any:
    driver: Any = redis.Redis
    return driver.from_url(parse(url).driver_url)


def arranged(store: RedisStore, clock: VirtualClock, scene: Scene) -> RedisStore:
    beat(store)
    scene(store, clock)
    return store


@pytest.mark.parametrize("is_turn", [True, False], ids=["turn", "claim"])
@pytest.mark.parametrize("scene", PLAIN)
def test_both_ways_lend_and_store_the_same(
    scene: str, is_turn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrange, wanted = PLAIN[scene]
    monkeypatch.setattr("duly.stores.redis.operations.new_nonce", lambda: NONCE)  # else no two are alike
    found: list[tuple[Claimed, Any]] = []
    for way in ("short", "whole"):
        clock, name = VirtualClock(), namespace_of(tmp_path / way)
        store = arranged(RedisStore(shared_url(), clock=clock, namespace=name), clock, arrange)
        with undecoded(store.url) as client:
            if (
                way == "whole"
            ):  # a notice without a stage says nothing, but keeps everybody from the short way
                client.hset(f"{{{name}}}:house", "other", "")
            claimed = store.run(store.turn([], wanted)).claimed if is_turn else store.run(store.claim(wanted))
            client.delete(f"{{{name}}}:house")
            found.append((claimed, everything(client, name)))
        store.close()

    assert found[0] == found[1]


def answered(store: RedisStore, client: Any, clock: VirtualClock, wanted: Ask) -> str:
    """What the short way says by itself."""
    alone = assembled(("clock", "start", SHORT), (), 'return "not for me"')
    times = [round(clock.now().timestamp() * 1_000_000), round(clock.boot() * 1_000_000)]
    asked = encoded(Asks().text(wanted, NONCE, asked=1))
    said: Any = client.eval(alone.text, 1, prefix_of(store), *times, asked)
    return said if isinstance(said, str) else said.decode()


@pytest.mark.parametrize("scene", PLAIN)
def test_what_is_plain_goes_the_short_way(
    scene: str, store: RedisStore, client: Any, clock: VirtualClock
) -> None:
    arrange, wanted = PLAIN[scene]
    arranged(store, clock, arrange)

    assert answered(store, client, clock, wanted) != "not for me"


@pytest.mark.parametrize("scene", OTHER)
def test_whatever_has_a_rule_goes_the_whole_way_untouched(
    scene: str, store: RedisStore, client: Any, clock: VirtualClock, tmp_path: Path
) -> None:
    arrange, wanted = OTHER[scene]
    arranged(store, clock, arrange)
    with undecoded(store.url) as reader:
        before = everything(reader, namespace_of(tmp_path))

        assert answered(store, client, clock, wanted) == "not for me"
        assert everything(reader, namespace_of(tmp_path)) == before


def test_what_was_asked_before_a_disowning_lends_nothing(
    store: RedisStore, client: Any, clock: VirtualClock
) -> None:
    arranged(store, clock, lambda store, _: put(store, *jobs(1)))
    store.run(store.disown("w1", []))

    assert answered(store, client, clock, ask()) == "not for me"


def test_a_worker_of_many_lanes_sees_which_comes_next(store: RedisStore, clock: VirtualClock) -> None:
    names = [f"task {number:02}" for number in range(60)]
    beat(store)
    put(store, *jobs(1), *[request(task=name, delay=MINUTE) for name in names[:-1]])
    put(store, request(task=names[-1], delay=2 * MINUTE))

    known = store.run(store.claim(ask(lanes=[Lane(TASK), Lane(names[-1])])))

    assert [claim.id for claim in known.claims] == ["j1"]
    assert known.next_at == clock.now() + 2 * MINUTE
