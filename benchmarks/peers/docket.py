"""Docket on Redis."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from docket import Docket, Worker

from benchmarks import place
from benchmarks.slots import given

stamp = given().stamper()
SOON = timedelta(milliseconds=10)


async def noop(number: int) -> None:
    stamp(number)


def docket() -> Any:
    made = Docket(name="bench", url=place.url(), execution_ttl=timedelta(0))
    made.register(noop)
    return made


class Peer:
    packages = ("pydocket", "redis", "hiredis")
    settings = "concurrency=50 (default 10), execution_ttl=0, check interval 10 ms (default 250)"

    async def setup(self) -> None: ...

    async def open(self) -> None:
        self.docket = await docket().__aenter__()

    async def close(self) -> None:
        await self.docket.__aexit__(None, None, None)

    async def enqueue(self, number: int) -> None:
        await self.docket.add(noop)(number)

    async def bulk(self, numbers: Sequence[int]) -> None:
        await self.docket.add_many([self.docket.call(noop)(number) for number in numbers])

    async def worker(self) -> None:
        intervals = {"minimum_check_interval": SOON, "scheduling_resolution": SOON}
        async with docket() as made, Worker(made, concurrency=50, **intervals) as worker:
            await worker.run_forever()
