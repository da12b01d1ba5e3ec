"""Celery on Redis."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from celery import Celery

from benchmarks import place
from benchmarks.slots import given

POOL = place.variant() or "prefork"
AT_ONCE = {"prefork": 2, "threads": 10}[POOL]
stamp = given().stamper()
app = Celery("bench", broker=place.url())
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=64,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    task_default_queue="q",
)


@app.task(name="noop")
def noop(number: int) -> None:
    stamp(number)


class Peer:
    packages = ("celery", "kombu", "redis", "hiredis")
    settings = f"-P {POOL} -c {AT_ONCE}, acks_late, ignore_result, prefetch multiplier 64, without gossip"

    def setup(self) -> None: ...

    def open(self) -> None: ...

    def close(self) -> None: ...

    def enqueue(self, number: int) -> None:
        noop.delay(number)

    def worker_argv(self) -> list[str]:
        program = str(Path(sys.executable).with_name("celery"))
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR"]
        own = ["-P", POOL, "-c", str(AT_ONCE), "-Q", "q", "-n", f"w{os.getpid()}@%h"]
        return [program, "-A", "benchmarks.peers.celery", "worker", *own, *quiet]
