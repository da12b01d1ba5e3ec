"""What following a table costs: an UPDATE of many rows with and without triggers, and planning its jobs.

    python -m benchmarks.reactive_update --stores sqlite postgres --rows 100000
    python -m benchmarks.reactive_update --url postgresql://…

Two tables alike, one of them followed; the best of several rounds counts, since a busy machine only adds.
Without a URL it takes a file and a server of its own.
"""

from __future__ import annotations

import argparse
import resource
import sqlite3
import tempfile
import time
from typing import Any

import psycopg
from tests.servers import postgres_url

from duly import Change, Duly
from duly.reactions import following
from duly.worker.planner import Planner

COLUMNS = "id integer primary key, customer text, status text, total numeric, note text, created text"
ROW = "i, 'customer ' || i, 'new', i, 'some text of a row that is a bit longer, as rows are', '2026-11-15'"
ROUNDS = 7


def connect(url: str) -> Any:
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=30)
    return psycopg.connect(url, autocommit=True)


def fill(connection: Any, table: str, rows: int) -> None:
    connection.execute(f"drop table if exists {table}")
    connection.execute(f"create table {table} ({COLUMNS})")
    numbers = f"with recursive n (i) as (select 1 union all select i + 1 from n where i < {rows})"
    connection.execute(f"insert into {table} {numbers} select {ROW} from n")


def seconds(connection: Any, statement: str) -> float:
    """On SQLite the statement runs in this thread, whose own time no other process adds to."""
    clock = time.thread_time if isinstance(connection, sqlite3.Connection) else time.perf_counter
    began = clock()
    connection.execute(statement)
    return clock() - began


def plan_all(app: Duly) -> tuple[int, float]:
    """Runs put, and how long the longest transaction took."""
    store, runs, longest = following(app.store), 0, 0.0
    while True:
        began = time.perf_counter()
        planned = store.run(store.plan(200))
        longest = max(longest, time.perf_counter() - began)
        runs += planned.runs
        if not planned.changes and store.run(store.scan(200)) is None:
            return runs, longest


def measure(url: str, rows: int) -> None:
    app = Duly(url, namespace="bench")
    app.open()

    @app.react(table="bench_followed", where="status like 'paid%'", watch=["status"], name="bench")
    def follow(change: Change) -> None: ...

    connection = connect(url)
    for table in ("bench_plain", "bench_followed"):
        fill(connection, table, rows)
    planner = Planner.of(app, fail=lambda error: None)
    assert planner is not None
    planner.prepare()
    plan_all(app)
    rounds: dict[str, list[float]] = {"bench_plain": [], "bench_followed": []}
    for number in range(ROUNDS):
        for table, taken in rounds.items():
            taken.append(seconds(connection, f"update {table} set status = 'new {number}'"))
        plan_all(app)
    best = {table: min(taken) for table, taken in rounds.items()}
    ratio = best["bench_followed"] / best["bench_plain"]
    print(f"update of {rows:,} rows: {best['bench_plain']:.3f} s, followed {best['bench_followed']:.3f} s")
    print(f"ratio {ratio:.2f}")
    connection.execute("update bench_followed set status = 'paid'")
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    runs, longest = plan_all(app)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{runs:,} runs planned in {time.perf_counter() - began:.1f} s")
    print(f"longest transaction {longest * 1000:.0f} ms, {grown:,} kB more memory")
    connection.close()
    app.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", nargs="+", choices=("sqlite", "postgres"), default=["sqlite", "postgres"])
    parser.add_argument("--url", help="measure here instead")
    parser.add_argument("--rows", type=int, default=100_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as folder:
        own = [f"sqlite:///{folder}/bench.db" if one == "sqlite" else postgres_url() for one in args.stores]
        for url in [args.url] if args.url else own:
            print(f"--- {url.partition(':')[0]}", flush=True)
            measure(url, args.rows)


if __name__ == "__main__":
    main()
