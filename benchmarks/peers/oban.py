"""Oban on PostgreSQL; it needs Python 3.12."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from oban import Oban, worker
from oban.schema import install

from benchmarks import place
from benchmarks.slots import given

stamp = given().stamper()


class Noop:
    async def process(self, job: Any) -> None:
        stamp(job.args["number"])


noop: Any = worker(queue="q")(Noop)


class Peer:
    packages = ("oban", "psycopg", "uvloop")
    settings = "queue limit=100 (default 10), pool max_size=10, uvloop (what its CLI uses)"

    async def setup(self) -> None:
        pool = await Oban.create_pool(place.url())
        await install(pool)
        await pool.close()

    async def open(self) -> None:
        self.pool = await Oban.create_pool(place.url(), max_size=10)
        self.oban = Oban(pool=self.pool)
        await self.oban.start()

    async def close(self) -> None:
        await self.oban.stop()
        await self.pool.close()

    async def enqueue(self, number: int) -> None:
        await self.oban.enqueue(noop.new({"number": number}))

    async def bulk(self, numbers: Sequence[int]) -> None:
        await self.oban.enqueue_many([noop.new({"number": number}) for number in numbers])

    def worker(self) -> None:
        import uvloop

        async def serve() -> None:
            pool = await Oban.create_pool(place.url(), max_size=10)
            async with Oban(pool=pool, queues={"q": 100}):
                await asyncio.Event().wait()

        uvloop.run(serve())
