"""Chancy on PostgreSQL."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from chancy import Chancy, Queue, Worker, job

from benchmarks import place
from benchmarks.slots import given

stamp = given().stamper()
log = logging.getLogger("chancy-bench")
log.addHandler(logging.NullHandler())
log.propagate = False


@job(queue="q")
async def noop(*, number: int) -> None:
    stamp(number)


class Peer:
    packages = ("chancy", "psycopg")
    settings = "AsyncExecutor, concurrency=100, eager_polling, polling_interval=1, notifications on"

    async def setup(self) -> None:
        async with Chancy(place.url(), log=log) as app:
            await app.migrate()
            queue = Queue(
                "q", concurrency=100, executor=Chancy.Executor.Async, polling_interval=1, eager_polling=True
            )
            await app.declare(queue, upsert=True)

    async def open(self) -> None:
        self.app = await Chancy(place.url(), log=log).__aenter__()

    async def close(self) -> None:
        await self.app.__aexit__(None, None, None)

    async def enqueue(self, number: int) -> None:
        await self.app.push(noop.job.with_kwargs(number=number))

    async def bulk(self, numbers: Sequence[int]) -> None:
        async for _ in self.app.push_many([noop.job.with_kwargs(number=number) for number in numbers]):
            pass

    async def worker(self) -> None:
        async with Chancy(place.url(), log=log) as app, Worker(app) as worker:
            await worker.wait_for_shutdown()
