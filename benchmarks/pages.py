"""How long every page and every look of the API takes in a store with a million jobs.

The jobs come through the store's own operations, in the mix of a shop that has been open for a while: most
went well, some failed for one of fifty reasons, some wait, some are for tomorrow, every tenth has a key.
`cold` is the first look of a process that has remembered nothing, `warm` the median of those after it.

    python -m benchmarks.pages --stores sqlite postgres redis --jobs 1000000
    python -m benchmarks.pages --url sqlite:////tmp/shop.db   (filled once, kept for the next call)
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from statistics import median
from typing import Final, NamedTuple

from starlette.testclient import TestClient

from benchmarks.sites import TOKEN, Place, parser, places
from duly import Duly
from duly.dashboard import asgi
from duly.ids import new_id
from duly.job import Claim, Request
from duly.lifecycle import Done, Fail, Verdict
from duly.stores.contract import Ask, Lane, Settlement, Store

TASKS: Final = 12
QUEUES: Final = ("default", "mail", "payments", "reports")
CAUSES: Final = 50
BULK: Final = 1000
LEASE: Final = timedelta(hours=1)
ROUNDS: Final = 5
GOAL: Final = timedelta(milliseconds=300)


class Mix(NamedTuple):
    """How many of each kind."""

    ended: int
    waiting: int
    scheduled: int

    @classmethod
    def of(cls, jobs: int) -> Mix:
        return cls(jobs - jobs // 14 - jobs // 33, jobs // 14, jobs // 33)


@dataclass
class Filling:
    """Puts jobs into a store and works them off, as fast as batches go."""

    store: Store
    numbers: Iterator[int]

    def fill(self, mix: Mix) -> None:
        claims: Sequence[Claim] = []
        for start in range(0, mix.ended, BULK):
            self.put(min(BULK, mix.ended - start))
            claims = self.store.run(self.store.turn(ended(claims), self.ask())).claimed.claims
        self.store.run(self.store.settle("loader", ended(claims)))
        self.put(mix.waiting)
        self.put(mix.scheduled, later=timedelta(days=1))

    def put(self, amount: int, later: timedelta | None = None) -> None:
        for start in range(0, amount, BULK):
            few = itertools.islice(self.numbers, min(BULK, amount - start))
            self.store.run(self.store.put([request(number, later) for number in few]))

    def ask(self) -> Ask:
        return Ask("loader", {name: Lane(name) for name in names()}, LEASE, limit=BULK, free=BULK)


def names() -> list[str]:
    return [f"shop.tasks.{number:02}" for number in range(TASKS)]


def request(number: int, later: timedelta | None) -> Request:
    return Request(
        id=new_id(),
        task=names()[number % TASKS],
        arguments=f'[[{number}],{{"customer":"customer-{number % 1000}","card":"4242"}}]',
        queue=QUEUES[number % len(QUEUES)],
        key=f"order:{number}" if number % 10 == 0 else None,
        delay=later,
    )


def ended(claims: Sequence[Claim]) -> list[Settlement]:
    return [Settlement(claim.fence, verdict(claim.generation)) for claim in claims]


def verdict(number: int) -> Verdict:
    """Every twentieth fails."""
    return Fail(trace(number // 20 % CAUSES, number)) if number % 20 == 0 else Done()


def trace(cause: int, number: int) -> str:
    return (
        "Traceback (most recent call last):\n"
        f'  File "/srv/shop/tasks.py", line {100 + cause}, in step_{cause}\n    charge(order)\n'
        f'  File "/srv/shop/bank.py", line 12, in charge\n    raise Declined{cause}(order)\n'
        f"shop.bank.Declined{cause}: order {number} was declined by the bank"
    )


# --- looking --------------------------------------------------------------------------------------


def application(url: str, namespace: str) -> Duly:
    app = Duly(url, namespace=namespace)
    for name in names():

        @app.task(name=name, redact=["card"])
        def task(order: int, *, customer: str, card: str) -> None: ...

    for number in range(5):

        @app.schedule(cron=f"{number} 2 * * *", name=f"nightly-{number}")
        @app.task(name=f"shop.nightly.{number}")
        def nightly() -> None: ...

    return app


def addresses(app: Duly) -> list[str]:
    """Every page and look, with the filters people use."""
    [failed] = app.jobs.list(state="failed", limit=1)
    [waiting] = app.jobs.list(state="waiting", limit=1)
    [keyed] = app.jobs.list(key=_some_key(app), limit=1)
    cause, middle = failed.fingerprint, failed.generation // 2
    filters = [
        "",
        *(f"state={state}" for state in ("waiting", "running", "done", "failed", "cancelled", "skipped")),
        f"task={names()[3]}",
        f"task={names()[3]}&state=failed",
        "task=shop.nightly.1",
        "task=nobody.has.such",
        f"queue={QUEUES[1]}&state=done",
        "queue=nowhere&state=waiting",
        f"key={keyed.key}",
        "key=order:none",
        "error=Declined7",
        "error=nobody-says-this",
        f"fingerprint={cause}",
        f"before={middle}",
        f"state=failed&before={middle}",
    ]
    searches = ["text=customer-77", "text=Declined7", "text=nobody-says-this", "text=zzz&state=failed"]
    return [
        "/",
        *(f"/jobs?{one}".rstrip("?") for one in (*filters, *searches)),
        *(f"/jobs/{job.id}" for job in (failed, waiting, keyed)),
        "/failures",
        "/bulk?order=retry&state=failed",
        f"/bulk?order=retry&fingerprint={cause}",
        "/bulk?order=cancel&state=waiting",
        "/schedules",
        "/schedule?name=nightly-1",
        "/workers",
        "/reactions",
        "/audit",
        "/live.json",
        "/api/summary",
        *(f"/api/jobs?{one}".rstrip("?") for one in filters[:2]),
        f"/api/jobs/{failed.id}",
        f"/api/search?{searches[0]}",
        f"/api/preview?order=retry&fingerprint={cause}",
        *(f"/api/{name}" for name in ("workers", "schedules", "reactions", "pulse", "failures", "audit")),
        f"/api/pulse?task={names()[3]}",
        "/api/forecast?name=nightly-1",
    ]


def _some_key(app: Duly) -> str:
    return next(job.key for job in app.jobs.list(task=names(), limit=50) if job.key)


@contextmanager
def visitor(app: Duly) -> Generator[TestClient]:
    """Somebody at a dashboard that has seen nothing yet."""
    with TestClient(asgi(app, token=TOKEN), headers={"authorization": f"Bearer {TOKEN}"}) as client:
        client.get("/login")  # templates are compiled once in a process
        yield client


def timed(client: TestClient, address: str) -> float:
    began = time.perf_counter()
    answer = client.get(address)
    took = time.perf_counter() - began
    if answer.status_code != 200:
        raise RuntimeError(f"{address} answered {answer.status_code}: {answer.text[:500]}")
    return took


def measure(app: Duly, only: str) -> float:
    """Prints a row for each address; answers the longest time."""
    print("| address | cold, ms | warm, ms |\n| --- | --- | --- |", flush=True)
    chosen = [address for address in addresses(app) if only in address]
    with visitor(app) as client:
        for address in chosen:  # connections, compiled templates, the server's own caches
            client.get(address)
    return max(row(app, address) for address in chosen)


def row(app: Duly, address: str) -> float:
    colds: list[float] = []
    for _ in range(3):
        with visitor(app) as client:
            colds.append(timed(client, address))
    with visitor(app) as client:
        client.get(address)
        warm = median(timed(client, address) for _ in range(ROUNDS))
    cold = median(colds)
    mark = " !" if max(cold, warm) > GOAL.total_seconds() else ""
    print(f"| {address} | {cold * 1e3:.0f}{mark} | {warm * 1e3:.0f} |", flush=True)
    return max(cold, warm)


def visit(place: Place, jobs: int, only: str) -> None:
    with ExitStack() as stack:
        app = application(*place)
        stack.callback(app.close)
        began, stored = time.perf_counter(), app.jobs.count()
        if stored < jobs:
            Filling(app.store, itertools.count(stored)).fill(Mix.of(jobs - stored))
        app.run(burst=True, queues=["nobody's"])  # the schedules are there from now on
        filled = time.perf_counter() - began
        print(f"\n{app.store.__class__.__name__}, {app.jobs.count():,} jobs, filled in {filled:.0f} s\n")
        longest = measure(app, only)
        print(f"\nthe longest took {longest * 1e3:.0f} ms")


def main() -> None:
    words = parser(__doc__, jobs=1_000_000)
    words.add_argument("--only", default="", help="addresses with this in them")
    given = words.parse_args()
    for place in places(given):
        visit(place, given.jobs, given.only)


if __name__ == "__main__":
    main()
