"""Dramatiq on Redis."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks import place
from benchmarks.slots import SECOND, given

dramatiq.set_broker(RedisBroker(url=place.url()))
stamp = given().stamper()


@dramatiq.actor(queue_name="q")
def noop(number: int) -> None:
    stamp(number)


class Peer:
    packages = ("dramatiq", "redis", "hiredis")
    settings = "--processes 1 --threads 8 (the default), default prefetch"

    def setup(self) -> None: ...

    def open(self) -> None: ...

    def close(self) -> None: ...

    def enqueue(self, number: int) -> None:
        noop.send(number)

    def schedule(self, numbers: Sequence[int], due: float) -> None:
        for number in numbers:
            wait = max(0, int((due - time.time_ns() / SECOND) * 1000))
            noop.send_with_options(args=(number,), delay=wait)

    def worker_argv(self) -> list[str]:
        program = str(Path(sys.executable).with_name("dramatiq"))
        return [program, "benchmarks.peers.dramatiq", "--processes", "1", "--threads", "8"]
