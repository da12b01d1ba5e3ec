"""Huey, on Redis or on SQLite."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from huey import RedisHuey, SqliteHuey

from benchmarks import place
from benchmarks.slots import given

ON_A_FILE = place.url().startswith("sqlite")
WORKERS = 2 if ON_A_FILE else 4
logging.getLogger("huey").setLevel(logging.ERROR)
stamp = given().stamper()
huey: Any = (
    SqliteHuey("bench", filename=place.path(), fsync=True)
    if ON_A_FILE
    else RedisHuey("bench", url=place.url())
)


@huey.task(name="noop")
def noop(number: int) -> None:
    stamp(number)


class Peer:
    packages = ("huey",) if ON_A_FILE else ("huey", "redis", "hiredis")
    settings = f"-k thread -w {WORKERS}; not acknowledged: a crash loses the running task; " + (
        "WAL, fsync=True, poll 0.01 to 0.1 s" if ON_A_FILE else "blocking pop, scheduler interval 1 s"
    )

    def setup(self) -> None: ...

    def open(self) -> None: ...

    def close(self) -> None: ...

    def enqueue(self, number: int) -> None:
        noop(number)

    def schedule(self, numbers: Sequence[int], due: float) -> None:
        for number in numbers:
            noop.schedule(args=(number,), eta=datetime.fromtimestamp(due))  # noqa: DTZ006  it takes local time

    def worker(self) -> None:
        polls = {"initial_delay": 0.01, "max_delay": 0.1} if ON_A_FILE else {}
        consumer = huey.create_consumer(
            workers=WORKERS, worker_type="thread", scheduler_interval=1, periodic=False, **polls
        )
        consumer.run()
