"""What three people who watch the dashboard cost a worker.

In each round one worker drains a backlog, for a few seconds with nobody watching and for as many with three
watchers: of the overview, of the list of jobs and of one job; every other round the other way about. Each
watcher keeps the live stream open and fetches its page again whenever the stream says that it changed, as a
browser does. Worker, dashboard and watchers are processes of their own. Told are the rates, their ratio in
each round, and how much of a core the dashboard and the watchers took.

    python -m benchmarks.watchers --stores sqlite postgres redis --rounds 12
    python -m benchmarks.watchers --url postgresql://... --namespace bench
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import fmean, median, stdev
from typing import Any, Final, NamedTuple

import httpx2 as httpx
import uvicorn

from benchmarks.sites import TOKEN, Place, parser, places
from duly import Duly
from duly.dashboard import asgi

SPAWN: Final = multiprocessing.get_context("spawn")
PATIENCE: Final = 60.0
BATCH: Final = 10_000
done: Final = [0]
"""How many jobs this process has done."""


class Span(NamedTuple):
    """Some seconds of a drain: jobs per second, and the cores that the dashboard and the watchers took."""

    rate: float
    dashboard: float
    watchers: float


def application(place: Place) -> Duly:
    app = Duly(place.url, namespace=place.namespace)

    @app.task(name="nothing")
    async def nothing(number: int) -> None:
        done[0] += 1

    return app


# --- processes ------------------------------------------------------------------------------------


def serve(place: Place, port: int, line: Connection) -> None:
    server = uvicorn.Server(
        uvicorn.Config(asgi(application(place), token=TOKEN), port=port, lifespan="off", log_level="warning")
    )

    async def until_told() -> None:
        running = asyncio.create_task(server.serve())
        while (await asyncio.to_thread(line.recv)) != "enough":
            line.send(time.process_time())
        server.should_exit = server.force_exit = True
        await running

    asyncio.run(until_told())


def watch(port: int, pages: list[str], line: Connection) -> None:
    """Look when told to, and away again."""

    async def until_told() -> None:
        watching: list[asyncio.Task[None]] = []
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
            client.headers["authorization"] = f"Bearer {TOKEN}"
            while (word := await asyncio.to_thread(line.recv)) != "enough":
                if word == "look":
                    watching = [asyncio.create_task(_watch(client, page)) for page in pages]
                elif word == "away":
                    for one in watching:
                        one.cancel()
                line.send(time.process_time())

    asyncio.run(until_told())


async def _watch(client: httpx.AsyncClient, page: str) -> None:
    """As a browser does: the stream stays open, the page is fetched when the stream says that it changed."""
    version = None
    async with client.stream("GET", "/live") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                look = json.loads(line.removeprefix("data: "))
                if look["version"] != version:
                    version = look["version"]
                    (await client.get(page)).raise_for_status()


def work(place: Place, line: Connection) -> None:
    """Drain, and say at each word how many jobs were done."""
    app = application(place)

    def answer() -> None:
        while line.recv() != "enough":
            line.send(done[0])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=answer, daemon=True).start()
    app.run()
    app.close()


# --- measuring ------------------------------------------------------------------------------------


class Member:
    """A process at the other end of a line."""

    def __init__(self, target: Callable[..., None], *given: Any) -> None:
        self._line, theirs = SPAWN.Pipe()
        self._process = SPAWN.Process(target=target, args=(*given, theirs), daemon=True)
        self._process.start()

    def ask(self, word: str = "how much") -> float:
        self._line.send(word)
        return float(self._line.recv())

    def leave(self) -> None:
        self._line.send("enough")
        self._process.join()


@dataclass
class Measurement:
    """One store, with the dashboard and the watchers up all the time."""

    place: Place
    seconds: float
    dashboard: Member
    watchers: Member

    def round(self, jobs: int, *, watched_first: bool) -> tuple[Span, Span]:
        """The spans without and with watchers, of one drain."""
        fill(self.place, jobs)
        if watched_first:
            self._look()
        worker = Member(work, self.place)
        while worker.ask() < jobs * 0.02:  # it has got going
            time.sleep(0.05)
        first = self._span(worker)
        if watched_first:
            self.watchers.ask("away")
        else:
            self._look()
        second = self._span(worker)
        self.watchers.ask("away")
        worker.leave()
        return (second, first) if watched_first else (first, second)

    def _look(self) -> None:
        self.watchers.ask("look")
        time.sleep(1)  # they have arrived: how often somebody comes is not the question

    def _span(self, worker: Member) -> Span:
        members = (worker, self.dashboard, self.watchers)
        before, began = [member.ask() for member in members], time.perf_counter()
        time.sleep(self.seconds)
        after, took = [member.ask() for member in members], time.perf_counter() - began
        return Span(*((now - then) / took for then, now in zip(before, after, strict=True)))


def fill(place: Place, jobs: int) -> str:
    """Enqueue as many; answers the id of the last."""
    app = application(place)
    for start in range(0, jobs, BATCH):
        app.tasks["nothing"].enqueue_many([((number,), {}) for number in range(start, start + BATCH)])
    newest = app.tasks["nothing"].enqueue(jobs)
    app.close()
    return newest.id


def measure(place: Place, jobs: int, rounds: int, seconds: float) -> None:
    port, job = _free_port(), fill(place, BATCH)
    dashboard = Member(serve, place, port)
    _await_port(port)
    watchers = Member(watch, port, ["/", "/jobs", f"/jobs/{job}"])
    measurement = Measurement(place, seconds, dashboard, watchers)
    spans = [measurement.round(jobs, watched_first=bool(each % 2)) for each in range(rounds)]
    watchers.leave()
    dashboard.leave()
    _tell(place, spans)


def _tell(place: Place, spans: Sequence[tuple[Span, Span]]) -> None:
    pairs = sorted(watched.rate / alone.rate for alone, watched in spans)
    print(f"\n{place.url.partition(':')[0]}: {len(spans)} rounds")
    print(f"alone      {median(alone.rate for alone, _ in spans):10,.0f} jobs/s")
    print(f"watched    {median(watched.rate for _, watched in spans):10,.0f} jobs/s")
    print(f"ratio      {median(pairs):10.3f}   of each round: {', '.join(f'{pair:.2f}' for pair in pairs)}")
    print(f"           {fmean(pairs):10.3f}   on average, ± {stdev(pairs) / len(pairs) ** 0.5:.3f}")
    print(f"dashboard  {median(watched.dashboard for _, watched in spans):10.1%} of a core")
    print(f"watchers   {median(watched.watchers for _, watched in spans):10.1%} of a core", flush=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_port(port: int) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("The dashboard does not start.")


def main() -> None:
    words = parser(__doc__, jobs=200_000)  # more than a round drains
    words.add_argument("--rounds", type=int, default=12)
    words.add_argument("--seconds", type=float, default=3.0, help="of each span")
    given = words.parse_args()
    for place in places(given):
        measure(place, given.jobs, given.rounds, given.seconds)


if __name__ == "__main__":
    main()
