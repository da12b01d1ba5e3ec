"""SAQ on Redis."""

from __future__ import annotations

from typing import Any

from saq import Queue, Worker

from benchmarks import place
from benchmarks.slots import given

stamp = given().stamper()


async def noop(context: Any, *, number: int) -> None:
    stamp(number)


class Peer:
    packages = ("saq", "redis", "hiredis")
    settings = "concurrency=100 (default 10), ttl=-1 (no results kept)"

    async def setup(self) -> None: ...

    async def open(self) -> None:
        self.queue = Queue.from_url(place.url())
        await self.queue.connect()

    async def close(self) -> None:
        await self.queue.disconnect()

    async def enqueue(self, number: int) -> None:
        await self.queue.enqueue("noop", number=number, ttl=-1)

    async def worker(self) -> None:
        queue = Queue.from_url(place.url())
        await queue.connect()
        await Worker(queue, functions=[("noop", noop)], concurrency=100).start()
