"""What Redis allows: one script for a whole batch, on sorted sets around a hash of bodies."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, Final

import redis

from benchmarks import place
from benchmarks.raw import BATCH
from benchmarks.slots import given

TURN: Final = """
local now = ARGV[1]
if #ARGV > 2 then
    local ended = {}
    for i = 3, #ARGV do ended[#ended + 1] = now; ended[#ended + 1] = ARGV[i] end
    redis.call('zrem', KEYS[2], unpack(ARGV, 3))
    redis.call('zadd', KEYS[4], unpack(ended))
end
local ids = redis.call('zrangebyscore', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[2])
if #ids == 0 then return {{}, {}} end
redis.call('zrem', KEYS[1], unpack(ids))
local lent = {}
for i = 1, #ids do lent[#lent + 1] = now; lent[#lent + 1] = ids[i] end
redis.call('zadd', KEYS[2], unpack(lent))
return {ids, redis.call('hmget', KEYS[3], unpack(ids))}
"""
KEYS: Final = ("ready", "running", "body", "ended")


class Peer:
    packages = ("redis", "hiredis")
    settings = f"redis-py with hiredis, XADD for inserts, one Lua script a batch of {BATCH}"

    def __init__(self) -> None:
        self.task = os.environ.get(place.TASK, "")

    def setup(self) -> None: ...

    def open(self) -> None:
        self.client = connect()

    def close(self) -> None:
        self.client.close()

    def enqueue(self, number: int) -> None:
        if self.task == "wake":
            self.client.lpush("bell", number)
        else:
            self.client.xadd("jobs", {"arguments": number})

    def bulk(self, numbers: Sequence[int]) -> None:
        pipeline = self.client.pipeline(transaction=False)
        for number in numbers:
            pipeline.xadd("jobs", {"arguments": number})
        pipeline.execute()

    def fill(self, numbers: Sequence[int]) -> None:
        pipeline = self.client.pipeline(transaction=False)
        pipeline.zadd("ready", {f"job {number}": number for number in numbers})
        pipeline.hset("body", mapping={f"job {number}": number for number in numbers})
        pipeline.execute()

    def worker(self) -> None:
        wake() if self.task == "wake" else drain()


def connect() -> Any:
    driver: Any = redis.Redis
    return driver.from_url(place.url())


def drain() -> None:
    stamp, client, done = given().stamper(), connect(), list[bytes]()
    script = client.register_script(TURN)
    while True:
        done, bodies = script(keys=KEYS, args=[time.time_ns() // 1000, BATCH, *done])
        for body in bodies:
            stamp(int(body))
        if not bodies:
            time.sleep(0.001)


def wake() -> None:
    stamp, client = given().stamper(), connect()
    while word := client.brpop("bell", 60):
        stamp(int(word[1]))
