"""taskiq on Redis."""

from __future__ import annotations

import sys
from pathlib import Path

from taskiq_redis import RedisStreamBroker

from benchmarks import place
from benchmarks.slots import given

broker = RedisStreamBroker(url=place.url(), consumer_id="0")
stamp = given().stamper()


@broker.task(task_name="noop")
async def noop(number: int) -> None:
    stamp(number)


class Peer:
    packages = ("taskiq", "taskiq-redis", "redis", "hiredis", "uvloop")
    settings = "streams, 1 child, max-async-tasks=100, max-prefetch=100, --no-parse, uvloop, no results"

    async def setup(self) -> None:
        await broker.startup()

    async def open(self) -> None:
        await broker.startup()

    async def close(self) -> None:
        await broker.shutdown()

    async def enqueue(self, number: int) -> None:
        await noop.kiq(number)

    def worker_argv(self) -> list[str]:
        program = str(Path(sys.executable).with_name("taskiq"))
        limits = ["--workers", "1", "--max-async-tasks", "100", "--max-prefetch", "100"]
        return [
            program,
            "worker",
            "benchmarks.peers.taskiq:broker",
            *limits,
            "--no-parse",
            "--log-level",
            "ERROR",
        ]
