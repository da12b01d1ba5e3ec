"""PgQueuer on PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from benchmarks import place
from benchmarks.slots import SECOND, given


class Peer:
    packages = ("pgqueuer", "asyncpg", "uvloop")
    settings = "asyncpg driver, uvloop, batch_size=100, dequeue_timeout=1s"

    async def setup(self) -> None:
        connection = await asyncpg.connect(place.url())
        await Queries(AsyncpgDriver(connection)).install()
        await connection.close()

    async def open(self) -> None:
        self.connection = await asyncpg.connect(place.url())
        self.queries = Queries(AsyncpgDriver(self.connection))

    async def close(self) -> None:
        await self.connection.close()

    async def enqueue(self, number: int) -> None:
        await self.queries.enqueue("noop", b"%d" % number)

    async def bulk(self, numbers: Sequence[int]) -> None:
        amount = len(numbers)
        await self.queries.enqueue(["noop"] * amount, [b"%d" % number for number in numbers], [0] * amount)

    async def schedule(self, numbers: Sequence[int], due: float) -> None:
        wait, amount = timedelta(seconds=due - time.time_ns() / SECOND), len(numbers)
        bodies = [b"%d" % number for number in numbers]
        await self.queries.enqueue(["noop"] * amount, bodies, [0] * amount, [wait] * amount)

    def worker(self) -> None:
        import uvloop

        stamp = given().stamper()

        async def serve() -> None:
            queue = PgQueuer(AsyncpgDriver(await asyncpg.connect(place.url())))

            @queue.entrypoint("noop")
            async def noop(job: Any) -> None:
                stamp(int(job.payload))

            await queue.run(batch_size=100, dequeue_timeout=timedelta(seconds=1))

        uvloop.run(serve())
