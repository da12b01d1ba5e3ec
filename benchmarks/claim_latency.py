"""What one claim costs, whatever else lies in the store.

Each case fills a store with something that a claim must not walk through, then claims and settles a few
jobs there and, in turn with it, in a store that holds nothing else. Only the ratio means something: both
sides share the machine, its load and its noise.

    python -m benchmarks.claim_latency --stores postgres sqlite redis --scale 1.0
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import psycopg
from tests.servers import postgres_url
from tests.servers_redis import namespace_of, shared_url

from duly.ids import new_id
from duly.job import Claim, Request
from duly.lifecycle import Done
from duly.stores.contract import Ask, Lane, Scope, Settlement, Store, Switch
from duly.stores.postgres import PostgresStore
from duly.stores.redis import RedisStore
from duly.stores.sqlite import SqliteStore

TASK: Final = "measured"
ASIDE: Final = "aside"
"""A task whose jobs stand first in the queue and may not be lent."""
FINISHED: Final = 1_000_000
BACKLOG: Final = 200_000
BEFORE_A_SNAPSHOT: Final = 100_000
LEASE: Final = timedelta(hours=6)
BULK: Final = 1000
ROUNDS: Final = {1: 300, 50: 100}
"""How often each batch is claimed."""
GOAL: Final = 1.5


@dataclass(frozen=True)
class Side:
    """A store, and the claim that is measured on it."""

    store: Store
    lanes: tuple[Lane, ...] = (Lane(TASK),)

    has_keys: bool = False
    """Whether each job is about something of its own."""

    def put(self, amount: int, *, task: str = TASK, priority: int = 0) -> None:
        for start in range(0, amount, BULK):
            few = range(min(BULK, amount - start))
            self.store.run(self.store.put([self.request(task, priority) for _ in few]))

    def request(self, task: str, priority: int) -> Request:
        name = new_id()
        key = name if self.has_keys else None
        return Request(id=name, task=task, arguments="[[42],{}]", priority=priority, key=key)

    def ask(self, limit: int, worker: str = "worker") -> Ask:
        lanes = {lane.task: lane for lane in self.lanes}
        return Ask(worker, lanes, LEASE, limit=limit, free=limit)

    def claim(self, limit: int) -> Sequence[Claim]:
        return self.store.run(self.store.claim(self.ask(limit))).claims

    def settle(self, claims: Sequence[Claim]) -> None:
        self.store.run(self.store.settle("worker", ended(claims)))

    def work_off(self, amount: int) -> None:
        """Put, run and finish jobs, as a busy worker does."""
        claims: Sequence[Claim] = []
        for start in range(0, amount, BULK):
            self.put(min(BULK, amount - start))
            turned = self.store.run(self.store.turn(ended(claims), self.ask(BULK)))
            claims = turned.claimed.claims
        self.settle(claims)


def ended(claims: Sequence[Claim]) -> list[Settlement]:
    return [Settlement(claim.fence, Done()) for claim in claims]


# --- what lies in the way -------------------------------------------------------------------------

Case = Callable[[Side, float], Side]
"""Fills a store, to a scale; answers the side to measure."""


def much_history(side: Side, scale: float) -> Side:
    side.work_off(int(FINISHED * scale))
    side.put(int(BACKLOG * scale))
    return side


def after_a_snapshot(side: Side, scale: float) -> Side:
    """The snapshot is held by the caller: no row that is deleted here can be removed."""
    side.work_off(int(BEFORE_A_SNAPSHOT * scale))
    return side


def after_a_snapshot_with_keys(side: Side, scale: float) -> Side:
    return after_a_snapshot(replace(side, has_keys=True), scale)


def after_a_snapshot_with_a_limit(side: Side, scale: float) -> Side:
    return after_a_snapshot(replace(side, lanes=(Lane(TASK, concurrency=2 * BULK),)), scale)


def behind_a_pause(side: Side, scale: float) -> Side:
    side.put(int(BACKLOG * scale), task=ASIDE, priority=10)
    side.store.run(side.store.hold(Switch(Scope.TASK, ASIDE, None)))
    return replace(side, lanes=(Lane(TASK), Lane(ASIDE)))


def behind_an_unknown_task(side: Side, scale: float) -> Side:
    side.put(int(BACKLOG * scale), task=ASIDE, priority=10)
    return side


def behind_a_full_limit(side: Side, scale: float) -> Side:
    limited = replace(side, lanes=(Lane(TASK), Lane(ASIDE, concurrency=1)))
    side.put(int(BACKLOG * scale), task=ASIDE, priority=10)
    limited.store.run(limited.store.claim(limited.ask(1, worker="somebody else")))
    return limited


CASES: Final[dict[str, Case]] = {
    "1,000,000 finished, 200,000 waiting": much_history,
    "200,000 of a paused task first": behind_a_pause,
    "200,000 of an unknown task first": behind_an_unknown_task,
    "200,000 behind a full limit first": behind_a_full_limit,
}
WITH_A_SNAPSHOT: Final[dict[str, Case]] = {
    "a snapshot held over 100,000 jobs": after_a_snapshot,
    "a snapshot held over 100,000 jobs with keys": after_a_snapshot_with_keys,
    "a snapshot held over 100,000 jobs under a limit": after_a_snapshot_with_a_limit,
}


# --- stores ---------------------------------------------------------------------------------------

Opener = Callable[[ExitStack, str], Store]
"""Opens an empty store of a name; the stack closes it and removes what it held."""


def open_sqlite(stack: ExitStack, name: str) -> Store:
    folder = stack.enter_context(TemporaryDirectory(prefix="duly-bench-"))
    return opened(stack, SqliteStore(f"sqlite:///{Path(folder) / name}.db"))


def open_postgres(stack: ExitStack, name: str) -> Store:
    stack.callback(drop_schema, name)
    return opened(stack, PostgresStore(postgres_url(), namespace=name))


def open_redis(stack: ExitStack, name: str) -> Store:
    return opened(stack, RedisStore(shared_url(), namespace=namespace_of(Path(name))))


def opened(stack: ExitStack, store: Store) -> Store:
    store.open()
    stack.callback(store.close)
    return store


def drop_schema(name: str) -> None:
    with psycopg.connect(postgres_url(), autocommit=True) as admin:
        admin.execute(f'drop schema "{name}" cascade'.encode())


@contextmanager
def held_snapshot() -> Generator[None]:
    with psycopg.connect(postgres_url()) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("select count(*) from pg_class")
        yield


OPENERS: Final[dict[str, Opener]] = {
    "postgres": open_postgres,
    "sqlite": open_sqlite,
    "redis": open_redis,
}


# --- measuring ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Times:
    """Seconds, one for each round."""

    claims: list[float]
    settles: list[float]


def measured(sides: Sequence[Side], batch: int) -> list[Times]:
    """Every side in its turn, round by round, so that they share the machine's moods."""
    found = [Times([], []) for _ in sides]
    for number in range(ROUNDS[batch]):
        for side in sides:
            side.put(batch)
        places = range(len(sides)) if number % 2 else reversed(range(len(sides)))
        for place in places:
            began = time.perf_counter()
            claims = sides[place].claim(batch)
            claimed = time.perf_counter()
            sides[place].settle(claims)
            found[place].claims.append(claimed - began)
            found[place].settles.append(time.perf_counter() - claimed)
            if len(claims) != batch:
                raise RuntimeError(f"{len(claims)} jobs were lent instead of {batch}")
    return found


def shown(case: str, batch: int, full: Times, empty: Times) -> str:
    claim, bare_claim = median(full.claims), median(empty.claims)
    settle, bare_settle = median(full.settles), median(empty.settles)
    ratio = claim / bare_claim
    return (
        f"| {case} | {batch} | {claim * 1e3:.2f} ms | {bare_claim * 1e3:.2f} ms | {ratio:.2f}"
        f"{'' if ratio <= GOAL else ' !'} | {settle / bare_settle:.2f} |"
    )


def measure(kind: str, case: str, fill: Case, scale: float, names: Iterator[str]) -> None:
    with ExitStack() as stack:
        if case in WITH_A_SNAPSHOT:
            stack.enter_context(held_snapshot())
        empty = OPENERS[kind](stack, next(names))
        full = fill(Side(OPENERS[kind](stack, next(names))), scale)
        for batch in ROUNDS:
            times = measured([full, replace(full, store=empty)], batch)
            print(shown(case, batch, *times), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", nargs="+", choices=list(OPENERS), default=list(OPENERS))
    parser.add_argument("--scale", type=float, default=1.0, help="a part of the rows, for a quick look")
    parser.add_argument("--only", default="", help="cases with this in their name")
    given = parser.parse_args()
    names = (f"bench_{number}" for number in itertools.count())
    for kind in given.stores:
        cases = CASES | (WITH_A_SNAPSHOT if kind == "postgres" else {})
        print(f"\n{kind}\n\n| in the store | batch | claim | when empty | ratio | settle, ratio |")
        print("| --- | --- | --- | --- | --- | --- |", flush=True)
        for case, fill in cases.items():
            if given.only in case:
                measure(kind, case, fill, given.scale, names)


if __name__ == "__main__":
    main()
