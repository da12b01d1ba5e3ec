"""Procrastinate on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from procrastinate import App, PsycopgConnector

from benchmarks import place
from benchmarks.slots import given

app = App(connector=PsycopgConnector(conninfo=place.url(), min_size=1, max_size=20))
stamp = given().stamper()


@app.task(queue="q", name="noop")
async def noop(number: int) -> None:
    stamp(number)


class Peer:
    packages = ("procrastinate", "psycopg")
    settings = "async task, concurrency=20, pool max_size=20, listen_notify on, finished jobs kept (default)"

    async def setup(self) -> None:
        await app.open_async()
        await app.schema_manager.apply_schema_async()
        await app.close_async()

    async def open(self) -> None:
        await app.open_async()

    async def close(self) -> None:
        await app.close_async()

    async def enqueue(self, number: int) -> None:
        await noop.defer_async(number=number)

    async def bulk(self, numbers: Sequence[int]) -> None:
        await noop.batch_defer_async(*[{"number": number} for number in numbers])

    async def worker(self) -> None:
        async with app.open_async():
            await app.run_worker_async(concurrency=20, fetch_job_polling_interval=1.0)
