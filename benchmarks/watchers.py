"""What three people who watch the dashboard cost a worker.

Drains of the same number of jobs, in turn with nobody watching and with three watchers: of the overview, of
the list of jobs and of one job. Each keeps the live stream open and fetches its page again whenever the
stream says that it changed, as a browser does. The dashboard and the watchers are processes of their own;
told are the rates, their ratio, and the seconds of CPU that each of them took during the drain.

    python -m benchmarks.watchers --stores sqlite postgres redis --jobs 40000 --rounds 5
    python -m benchmarks.watchers --url postgresql://... --namespace bench
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import socket
import time
from collections.abc import Generator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from statistics import median
from typing import Final, NamedTuple

import httpx2 as httpx
import uvicorn

from benchmarks.pages import TOKEN, Place, private
from duly import Duly
from duly.dashboard import asgi

SPAWN: Final = multiprocessing.get_context("spawn")
PATIENCE: Final = 60.0


class Drain(NamedTuple):
    """One drain: jobs per second, and seconds of CPU of the dashboard and of those who watch."""

    rate: float
    dashboard: float = 0.0
    watchers: float = 0.0


def application(place: Place) -> Duly:
    app = Duly(place.url, namespace=place.namespace)

    @app.task(name="nothing")
    async def nothing(number: int) -> None: ...

    return app


# --- processes ------------------------------------------------------------------------------------


def serve(place: Place, port: int, line: Connection) -> None:
    server = uvicorn.Server(
        uvicorn.Config(asgi(application(place), token=TOKEN), port=port, lifespan="off", log_level="warning")
    )

    async def until_told() -> None:
        running = asyncio.create_task(server.serve())
        await asyncio.to_thread(_tell_cpu, line)
        server.should_exit = server.force_exit = True
        await running

    asyncio.run(until_told())


def watch(port: int, pages: list[str], line: Connection) -> None:
    async def until_told() -> None:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
            client.headers["authorization"] = f"Bearer {TOKEN}"
            watching = [asyncio.create_task(_watch(client, page)) for page in pages]
            await asyncio.to_thread(_tell_cpu, line)
            for one in watching:
                one.cancel()

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
    app = application(place)
    began = time.perf_counter()
    app.run(burst=True)
    line.send(time.perf_counter() - began)
    app.close()


def _tell_cpu(line: Connection) -> None:
    """Seconds of CPU of this process between two words on the line."""
    line.recv()
    began = time.process_time()
    line.recv()
    line.send(time.process_time() - began)


# --- measuring ------------------------------------------------------------------------------------


@contextmanager
def audience(place: Place, job: str) -> Generator[list[float]]:
    """The dashboard and three who watch; afterwards the list has the CPU of both."""
    port, costs = _free_port(), list[float]()
    lines = [SPAWN.Pipe(), SPAWN.Pipe()]
    dashboard = SPAWN.Process(target=serve, args=(place, port, lines[0][1]))
    dashboard.start()
    _await_port(port)
    browsers = SPAWN.Process(target=watch, args=(port, ["/", "/jobs", f"/jobs/{job}"], lines[1][1]))
    browsers.start()
    time.sleep(2)  # they have arrived, and their first pages are not counted as the worker's trouble
    for line, _ in lines:
        line.send("begin")
    try:
        yield costs
    finally:
        for process, (line, _) in ((browsers, lines[1]), (dashboard, lines[0])):
            line.send("enough")
            costs.insert(0, line.recv())
            process.join()


def drained(place: Place, jobs: int, *, watched: bool) -> Drain:
    app = application(place)
    handles = app.tasks["nothing"].enqueue_many([((number,), {}) for number in range(jobs)])
    app.close()
    if not watched:
        return Drain(jobs / _timed(place))
    with audience(place, handles[0].id) as costs:
        rate = jobs / _timed(place)
    return Drain(rate, *costs)


def _timed(place: Place) -> float:
    line, theirs = SPAWN.Pipe()
    worker = SPAWN.Process(target=work, args=(place, theirs))
    worker.start()
    took = line.recv()
    worker.join()
    return float(took)


def measure(place: Place, jobs: int, rounds: int) -> None:
    alone: list[Drain] = []
    watched: list[Drain] = []
    for _ in range(rounds):
        alone.append(drained(place, jobs, watched=False))
        watched.append(drained(place, jobs, watched=True))
    pairs = [with_them.rate / without.rate for without, with_them in zip(alone, watched, strict=True)]
    print(f"\n{place.url.partition(':')[0]}: {rounds} pairs of drains of {jobs:,} jobs")
    print(f"alone    {median(drain.rate for drain in alone):10,.0f} jobs/s")
    print(f"watched  {median(drain.rate for drain in watched):10,.0f} jobs/s")
    print(f"ratio    {median(pairs):10.3f}   of each pair: {', '.join(f'{pair:.2f}' for pair in pairs)}")
    print(f"CPU      {median(drain.dashboard for drain in watched):10.2f} s of the dashboard")
    print(f"         {median(drain.watchers for drain in watched):10.2f} s of those who watch", flush=True)


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--stores", nargs="*", choices=["sqlite", "postgres", "redis"], default=None)
    parser.add_argument("--url", help="a store of one's own")
    parser.add_argument("--namespace", default="duly")
    parser.add_argument("--jobs", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if given.url:
        measure(Place(given.url, given.namespace), given.jobs, given.rounds)
        return
    for kind in given.stores or ["sqlite", "postgres", "redis"]:
        with private(kind) as place:
            measure(place, given.jobs, given.rounds)


if __name__ == "__main__":
    main()
