"""Plays one system from inside its own environment: `python -m benchmarks.driver MODULE COMMAND WORDS…`

MODULE has a class `Peer`, its methods all plain or all async: `setup`, `open`, `close`, `enqueue(number)`
and, where the system has them, `bulk(numbers)`, `schedule(numbers, due)` and `fill(numbers)`, a way around a
missing bulk call, for backlogs only. `worker()` blocks, or `worker_argv()` names a program. The answer is one
line of JSON. Nothing but the standard library is imported here.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from importlib.metadata import version
from typing import Any, Final

from benchmarks.quantiles import quantile
from benchmarks.slots import SECOND, given

BULK: Final = 1000
PATIENCE: Final = 10.0
METHODS: Final = ("setup", "open", "close", "enqueue", "bulk", "fill", "schedule")
Answer = dict[str, Any]


class Plain:
    """A system without asyncio, seen as one with it: each call is still one blocking call."""

    def __init__(self, peer: Any) -> None:
        for name in METHODS:
            if hasattr(peer, name):
                setattr(self, name, self._awaitable(getattr(peer, name)))

    def _awaitable(self, method: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def call(*words: Any) -> Any:
            return method(*words)

        return call


async def nap(peer: Any, seconds: float) -> None:
    if isinstance(peer, Plain):
        time.sleep(seconds)  # noqa: ASYNC251  there is no loop to hold up
    else:
        await asyncio.sleep(seconds)


def finished(peer: Any, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run it to its end; what belongs to a plain system never waits, so it needs no loop."""
    if not isinstance(peer, Plain):
        return asyncio.run(work)
    try:
        work.send(None)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    raise RuntimeError("a plain system waited for a loop")


async def opened(peer: Any, work: Callable[[Any], Awaitable[Answer]]) -> Answer:
    await peer.open()
    try:
        return await work(peer)
    finally:
        await peer.close()


def portions(start: int, amount: int) -> Iterator[list[int]]:
    for first in range(start, start + amount, BULK):
        yield list(range(first, min(first + BULK, start + amount)))


async def enqueue(peer: Any, start: int, amount: int, seconds: float) -> Answer:
    """One call after another."""
    began, done = time.perf_counter(), 0
    while done < amount and time.perf_counter() - began < seconds:
        await peer.enqueue(start + done)
        done += 1
    return {"amount": done, "rate": done / (time.perf_counter() - began)}


async def bulk(peer: Any, start: int, amount: int) -> Answer:
    """Many in one call, where the system can."""
    if not hasattr(peer, "bulk"):
        return {"rate": None}
    began = time.perf_counter()
    for numbers in portions(start, amount):
        await peer.bulk(numbers)
    return {"rate": amount / (time.perf_counter() - began)}


async def fill(peer: Any, start: int, amount: int) -> Answer:
    """A backlog, in whatever way it is made soonest."""
    method = getattr(peer, "fill", None) or getattr(peer, "bulk", None)
    if method is None:
        return await enqueue(peer, start, amount, seconds=3600)
    for numbers in portions(start, amount):
        await method(numbers)
    return {}


async def latency(peer: Any, start: int, amount: int, seconds: float) -> Answer:
    """From before the call to the start of the body, one job at a time, with pauses of 2 to 10 ms."""
    times, waits = given().times, list[float]()
    began = time.perf_counter()
    for number in range(start, start + amount):
        sent = time.monotonic_ns()
        await peer.enqueue(number)
        until = time.perf_counter() + PATIENCE
        while not times[number] and time.perf_counter() < until:
            await nap(peer, 0.0005)
        if times[number]:
            waits.append((times[number] - sent) / 1e6)
        await nap(peer, 0.002 + 0.008 * ((number * 7919) % 100) / 100)
        if time.perf_counter() - began > seconds:
            break
    return {"amount": len(waits)} | {f"p{part}": quantile(waits, part / 100) for part in (50, 95, 99)}


async def schedule(peer: Any, start: int, amount: int, due: float) -> Answer:
    """All for one instant; answers how much of the time until then was left."""
    for numbers in portions(start, amount):
        await peer.schedule(numbers, due)
    return {"left": due - time.time_ns() / SECOND}


def together(make: Callable[[], Any], start: int, amount: int, seconds: float, clients: int) -> Answer:
    """Several clients at once, each with a thread and a connection of its own."""
    answers: list[Answer] = []
    barrier = threading.Barrier(clients)

    def one(number: int) -> None:
        async def wait_and_enqueue(peer: Any) -> Answer:
            barrier.wait(30)
            return await enqueue(peer, start + number * amount, amount, seconds)

        peer = make()
        answers.append(finished(peer, opened(peer, wait_and_enqueue)))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"amount": sum(a["amount"] for a in answers), "rate": sum(a["rate"] for a in answers)}


def about(peer: Any) -> Answer:
    versions = {package: version(package) for package in peer.packages}
    return {"versions": versions, "settings": peer.settings, "python": sys.version.split()[0]}


def work(peer: Any) -> None:
    """Become the worker."""
    if hasattr(peer, "worker_argv"):
        argv = peer.worker_argv()
        os.execv(argv[0], argv)
    working = peer.worker()
    if inspect.isawaitable(working):
        asyncio.run(_awaited(working))


async def _awaited(working: Awaitable[Any]) -> None:
    await working


def played(command: str, make: Callable[[], Any], words: list[float]) -> Answer:
    peer = make()
    if command == "setup":
        finished(peer, _set_up(peer))
        return {}
    if command == "clients":
        start, amount, seconds, clients = words
        return together(make, int(start), int(amount), seconds, int(clients))
    start, amount, *rest = words
    known: dict[str, Callable[..., Coroutine[Any, Any, Answer]]] = {
        "enqueue": enqueue,
        "bulk": bulk,
        "fill": fill,
        "latency": latency,
        "schedule": schedule,
    }
    return finished(peer, opened(peer, lambda it: known[command](it, int(start), int(amount), *rest)))


async def _set_up(peer: Any) -> Answer:
    await peer.setup()
    return {}


def main() -> None:
    module, command, *words = sys.argv[1:]
    kind: Callable[[], Any] = importlib.import_module(module).Peer
    if command == "worker":
        work(kind())
        return
    if command == "about":
        print(json.dumps(about(kind())), flush=True)
        return

    def make() -> Any:
        peer = kind()
        return peer if inspect.iscoroutinefunction(peer.enqueue) else Plain(peer)

    print(json.dumps(played(command, make, [float(word) for word in words])), flush=True)
    os._exit(0)  # some leave threads behind that never end


if __name__ == "__main__":
    main()
