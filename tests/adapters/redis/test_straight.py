"""The short way into the store writes what the long way writes, key by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from tests.servers_redis import namespace_of, shared_url

from duly.bundle import Bundle
from duly.ids import new_ids
from duly.job import Clash, Decision, Delivery, Guard, Keep, Request
from duly.stores.contract import Page, Selection
from duly.stores.redis import RedisStore
from duly.stores.redis.address import parse
from duly.stores.redis.straight import FEW, MOST, straight_words
from duly.testing import VirtualClock
from duly.testing.clock import START

PLAIN = Request(id="", task="shop.send", arguments="")
PATTERNS = {
    "plain": PLAIN,
    "elsewhere": replace(PLAIN, task="é|:1", queue="7:io", priority=-7, context='{"order": "é\\u0000"}'),
    "later": replace(PLAIN, delay=timedelta(minutes=5), keep=Keep(done=timedelta(seconds=3)), per_key=0),
    "at a moment": replace(PLAIN, run_after=START + timedelta(days=9), tick=START, perpetual=True),
    "past": replace(PLAIN, run_after=START - timedelta(days=9), delivery=Delivery.EXACTLY_ONCE),
}


def bundle(pattern: Request, count: int = 2) -> Bundle:
    return Bundle(pattern, new_ids(count), [f'[["{number} é"],{{}}]' for number in range(count)])


def everything(client: Any, name: str) -> dict[str, Any]:
    """All that is stored under a namespace, but for its name."""
    prefix = f"{{{name}}}:".encode()
    readers: dict[bytes, Callable[[bytes], Any]] = {
        b"hash": client.hgetall,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"set": client.smembers,
    }
    return {
        key.removeprefix(prefix): readers[client.type(key)](key) for key in client.scan_iter(prefix + b"*")
    }


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_both_ways_store_the_same(pattern: Request, tmp_path: Path, clock: VirtualClock) -> None:
    names = [namespace_of(tmp_path / way) for way in ("short", "long")]
    short, long = (RedisStore(shared_url(), clock=clock, namespace=name) for name in names)
    puts = [bundle(PLAIN), bundle(pattern), bundle(pattern, 1)]

    assert None not in map(straight_words, puts)
    answers = [
        [short.run(short.put(each)) for each in puts],
        [long.run(long.put(list(each))) for each in puts],
    ]

    driver: Any = redis.Redis
    with driver.from_url(parse(shared_url()).driver_url) as client:
        stored = [everything(client, name) for name in names]
    short.close()
    long.close()
    assert stored[0] == stored[1]
    assert answers[0] == answers[1]
    assert [placed.generation for answer in answers[0] for placed in answer] == [1, 2, 3, 4, 5]


def test_a_request_that_is_known_already_is_kept_and_its_fellows_are_created(store: RedisStore) -> None:
    first = bundle(PLAIN, 1)
    store.run(store.put(first))

    placed = store.run(store.put(Bundle(PLAIN, [*new_ids(1), *first.ids], ["[[],{}]", "[[],{}]"])))

    assert [answer.decision for answer in placed] == [Decision.CREATED, Decision.KEPT]
    assert [answer.generation for answer in placed] == [2, 1]


@pytest.mark.parametrize(
    "asked",
    [
        [PLAIN],
        bundle(PLAIN, FEW + 1),
        bundle(replace(PLAIN, key="a")),
        bundle(replace(PLAIN, serial="nightly")),
        bundle(replace(PLAIN, guard=Guard(timedelta(seconds=1)))),
        bundle(replace(PLAIN, expires_after=timedelta(seconds=1))),
        bundle(replace(PLAIN, clash=Clash.SEED)),
        bundle(replace(PLAIN, delivery=Delivery.AT_MOST_ONCE)),
    ],
    ids=["no bundle", "many", "key", "serial", "guard", "expiry", "seed", "at most once"],
)
def test_whatever_has_a_rule_goes_the_long_way(asked: Sequence[Request]) -> None:
    assert straight_words(asked) is None


def test_more_patterns_than_are_remembered_are_told_apart(store: RedisStore) -> None:
    patterns = [replace(PLAIN, task=f"shop.{number}") for number in range(MOST + 1)]

    for pattern in [*patterns, patterns[0]]:
        store.run(store.put(bundle(pattern, 1)))

    tasks = [job.task for job in store.run(store.find(Selection(), Page(limit=MOST + 2)))]
    assert sorted(tasks) == sorted([*(f"shop.{number}" for number in range(MOST + 1)), "shop.0"])
