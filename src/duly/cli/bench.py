"""`duly bench`: how fast Duly is on a store of yours, with one process and jobs that do nothing.

The jobs have a queue and a namespace of their own, and are deleted at the end. How Duly compares with others
is measured by `benchmarks/` in a checkout, which `--peers` calls.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.exits import Exit, UsageError
from duly.cli.parser import Arguments, Parser, at_least_one
from duly.cli.progress import Progress
from duly.cli.tables import table
from duly.urls import masked

if TYPE_CHECKING:
    from duly import Duly
    from duly.app import AnyTask

NAMESPACE: Final = "duly_bench"
QUEUE: Final = "duly-bench"
BULK: Final = 1000
SINGLE: Final = 300
PROMPT: Final = 100


class Figure(NamedTuple):
    """One line of the answer."""

    what: str
    value: float
    unit: str


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "target", nargs="?", metavar="URL", help="the store (DULY_URL, else sqlite:///duly.db)"
    )
    parser.option("--jobs", type=at_least_one, default=10_000, metavar="N", help="how many to drain (10000)")
    parser.option(
        "--peers", action="store_true", default=False, help="compare with others; needs a checkout of Duly"
    )
    parser.option("--quick", action="store_true", default=False, help="with --peers: the best ones, once")
    offer_json(parser)


def run(args: Arguments) -> int:
    if args.peers:
        return _compare(is_quick=args.quick)
    from duly import Duly

    app = Duly(args.target, namespace=NAMESPACE)
    try:
        figures = Bench(app, args.jobs).run()
    finally:
        app.close()
    rows = [[figure.what, f"{figure.value:,.1f}", figure.unit] for figure in figures]
    document = {
        "url": masked(app.settings.url),
        "figures": [
            {"what": each.what, "value": round(each.value, 2), "unit": each.unit} for each in figures
        ],
    }
    answer(args, document, table(["what", "found", "unit"], rows))
    return Exit.OK


def _compare(*, is_quick: bool) -> int:
    if not (Path.cwd() / "benchmarks" / "__main__.py").is_file():
        raise UsageError("--peers needs the folder benchmarks/ of a checkout: call it there, or `make bench`")
    words = [sys.executable, "-m", "benchmarks", *(["--quick"] if is_quick else [])]
    return subprocess.run(words, check=False, env=os.environ).returncode


class Bench:
    """The work, one piece after another; each piece says how far it is."""

    def __init__(self, app: Duly, jobs: int) -> None:
        self._app = app
        self._jobs = jobs
        self._started: list[int] = []
        self._task: AnyTask = app.task(name="duly.bench.noop", queue_name=QUEUE)(self._noop())

    def _noop(self) -> Callable[[int], Any]:
        async def noop(number: int) -> None:
            self._started.append(time.monotonic_ns())

        return noop

    def run(self) -> list[Figure]:
        self._app.open()
        try:
            return [*self._enqueue(), *self._drain(), *self._pick_up()]
        finally:
            self._app.jobs.delete(task=self._task.name)

    def _enqueue(self) -> list[Figure]:
        """One call after another, then many in one."""
        with_bar = Progress("enqueued", SINGLE + self._jobs)
        began = time.perf_counter()
        for number in range(SINGLE):
            self._task.enqueue(number)
            with_bar.reach(number)
        alone = SINGLE / (time.perf_counter() - began)
        began = time.perf_counter()
        for start in range(0, self._jobs, BULK):
            few = range(start, min(start + BULK, self._jobs))
            self._task.enqueue_many([((number,), {}) for number in few])
            with_bar.reach(SINGLE + few.stop)
        with_bar.close()
        together = self._jobs / (time.perf_counter() - began)
        return [Figure("enqueue", alone, "calls/s"), Figure("enqueue_many", together, "jobs/s")]

    def _drain(self) -> list[Figure]:
        asyncio.run(self._drained())
        taken = (self._started[-1] - self._started[0]) / 1e9
        return [Figure("drain, one worker", (len(self._started) - 1) / taken, "jobs/s")]

    async def _drained(self) -> None:
        bar = Progress("run", SINGLE + self._jobs)
        async with self._app.worker(queues=[QUEUE]):
            while len(self._started) < SINGLE + self._jobs:
                bar.reach(len(self._started))
                await asyncio.sleep(0.02)
        bar.close()

    def _pick_up(self) -> list[Figure]:
        waits = asyncio.run(self._picked_up())
        return [
            Figure("pick-up, median", median(waits), "ms"),
            Figure("pick-up, p95", quantiles(waits, n=20)[-1], "ms"),
        ]

    async def _picked_up(self) -> list[float]:
        """From before the call to the start of the body, with an idle worker."""
        waits = list[float]()
        bar = Progress("picked up", PROMPT)
        async with self._app.worker(queues=[QUEUE]):
            await asyncio.sleep(0.3)
            for number in range(PROMPT):
                known, sent = len(self._started), time.monotonic_ns()
                await self._task.aenqueue(number)
                while len(self._started) == known:
                    await asyncio.sleep(0.0005)
                waits.append((self._started[-1] - sent) / 1e6)
                bar.reach(number)
        bar.close()
        return waits


BENCH = Command(
    description="Measure how fast Duly is on a store, with one process and jobs that do nothing.",
    epilog="The jobs have a queue and a namespace of their own and are deleted at the end.",
    arguments=arguments,
    run=run,
)
