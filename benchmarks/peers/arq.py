"""arq on Redis."""

from __future__ import annotations

from typing import Any

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker

from benchmarks import place
from benchmarks.slots import given

stamp = given().stamper()


async def noop(context: Any, number: int) -> None:
    stamp(number)


class Peer:
    packages = ("arq", "redis", "hiredis")
    settings = "max_jobs=100 (default 10), poll_delay=0.1 (default 0.5), keep_result=0"

    async def setup(self) -> None: ...

    async def open(self) -> None:
        self.pool = await create_pool(RedisSettings.from_dsn(place.url()))

    async def close(self) -> None:
        await self.pool.aclose()

    async def enqueue(self, number: int) -> None:
        await self.pool.enqueue_job("noop", number)

    async def worker(self) -> None:
        settings = RedisSettings.from_dsn(place.url())
        worker = Worker(
            functions=[noop],
            redis_settings=settings,
            max_jobs=100,
            poll_delay=0.1,
            keep_result=0,
            handle_signals=False,
        )
        await worker.async_run()
