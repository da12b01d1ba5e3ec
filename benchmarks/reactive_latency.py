"""What planning a flood of changes does to others: how long a job of another queue waits to be picked up.

    python -m benchmarks.reactive_latency --stores sqlite postgres --rows 100000

A worker process serves a quiet queue. A job is put there every few moments: first while nothing else happens,
then while the same worker plans one job for each row of a large UPDATE. It tells both medians, how many jobs
the update became, and how much memory the worker took for it. Nobody serves the queue of these jobs: it is
planning that is measured.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import psycopg
from tests.servers import postgres_url

from benchmarks.reactive_update import connect, fill
from duly import Change, Duly
from duly.reactions import following

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = "BENCH_FOLDER"
EVERY: Final = 0.1
IDLE: Final = 80
"""Jobs put while nothing else happens."""

app = Duly()


@app.task(name="ping", queue_name="quiet")
def ping(sent_at: float) -> None:
    """Notes how long it waited, by the clock that all processes of the machine share."""
    with open(Path(os.environ[FOLDER]) / "waits", "a") as file:
        file.write(f"{time.clock_gettime(time.CLOCK_BOOTTIME) - sent_at}\n")


@app.react(
    table="bench_followed", where="status = 'paid'", watch=["status"], name="flood", queue_name="flood"
)
def flood(change: Change) -> None: ...


def waits(folder: Path) -> list[float]:
    return [float(line) for line in (folder / "waits").read_text().split()]


def ping_until(folder: Path, is_over: Callable[[int], bool]) -> list[float]:
    """Put a job every now and then; the waits of those put meanwhile."""
    before, sent = len(waits(folder)), 0
    while not is_over(sent):
        ping.enqueue(time.clock_gettime(time.CLOCK_BOOTTIME))
        sent += 1
        time.sleep(EVERY)
    while len(waits(folder)) < before + sent:
        time.sleep(0.05)
    return waits(folder)[before:]


def memory(pid: int) -> int:
    """The most that a process ever had resident, in kB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


@contextmanager
def place(store: str, folder: Path) -> Generator[str, None, None]:
    if store == "sqlite":
        yield f"sqlite:///{folder / 'bench.db'}"
        return
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute("drop schema if exists reactive_latency cascade")
    yield postgres_url()


def measure(rows: int) -> None:
    folder, url = Path(os.environ[FOLDER]), os.environ["DULY_URL"]
    (folder / "waits").touch()
    app.open()
    store, connection = following(app.store), connect(url)
    fill(connection, "bench_followed", rows)
    command = [sys.executable, "-m", "duly", "worker", "benchmarks.reactive_latency:app", "-q", "quiet"]
    worker = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        ping_until(folder, lambda sent: sent >= 20)
        idle = ping_until(folder, lambda sent: sent >= IDLE)
        before = memory(worker.pid)
        connection.execute("update bench_followed set status = 'paid'")
        began = time.perf_counter()
        busy = ping_until(folder, lambda _: not store.run(store.has_changes()))
        taken = time.perf_counter() - began
        for name, found in (("idle", idle), ("planning", busy)):
            slow = quantiles(found, n=20)[-1]
            print(
                f"{name:8} median {median(found) * 1000:6.1f} ms, p95 {slow * 1000:6.1f} ms, of {len(found)}"
            )
        print(f"ratio {median(busy) / median(idle):.2f}; planned in {taken:.1f} s")
        print(f"{app.jobs.count(task='flood'):,} jobs for {rows:,} rows")
        print(f"the worker's memory grew from {before:,} to {memory(worker.pid):,} kB")
    finally:
        worker.terminate()
        worker.wait(30)
        app.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", nargs="+", choices=("sqlite", "postgres"), default=["sqlite", "postgres"])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args.rows)
        return
    for store in args.stores:  # an application has one store: each gets a process
        print(f"--- {store}", flush=True)
        with tempfile.TemporaryDirectory(prefix="duly-bench-") as folder, place(store, Path(folder)) as url:
            own = {"DULY_URL": url, "DULY_NAMESPACE": "reactive_latency", FOLDER: folder}
            words = ["-m", "benchmarks.reactive_latency", "--measure", "--rows", str(args.rows)]
            subprocess.run([sys.executable, *words], cwd=ROOT, env=os.environ | own, check=True)


if __name__ == "__main__":
    main()
