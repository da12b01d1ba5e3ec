"""RQ on Redis."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from redis import Redis
from rq import Queue

from benchmarks import place
from benchmarks.slots import given

stamp = given().stamper()


def noop(number: int) -> None:
    stamp(number)


class Peer:
    packages = ("rq", "redis", "hiredis")
    settings = "SimpleWorker (no fork for each job, unlike the default), result_ttl=0, one job at a time"

    def setup(self) -> None: ...

    def open(self) -> None:
        self.client = Redis.from_url(place.url())
        self.queue = Queue("q", connection=self.client)

    def close(self) -> None:
        self.client.close()

    def enqueue(self, number: int) -> None:
        self.queue.enqueue("benchmarks.peers.rq.noop", number, result_ttl=0)

    def bulk(self, numbers: Sequence[int]) -> None:
        name = "benchmarks.peers.rq.noop"
        self.queue.enqueue_many(
            [Queue.prepare_data(name, args=(number,), result_ttl=0) for number in numbers]
        )

    def worker_argv(self) -> list[str]:
        program = str(Path(sys.executable).with_name("rq"))
        simple = ["--worker-class", "rq.worker.SimpleWorker", "--quiet", "--disable-job-desc-logging"]
        return [program, "worker", "q", "--url", place.url(), *simple]
