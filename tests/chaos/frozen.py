"""A worker frozen around its effect and woken after its lease: one effect per job, every time.

    python -m tests.chaos.frozen --store postgres --rounds 1000

A zombie process claims a batch of jobs and stops at a named moment; another worker takes the jobs over when
the lease has run out; then the zombie is woken and goes on as if nothing had happened. A round is one job
whose run was frozen.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.servers import postgres_url
from tests.stories.arrange import working
from tests.stories.effects import Effects

from duly import Duly, Job, Run

ROOT: Final = Path(__file__).parents[2]
POINTS: Final = ("before_effect", "after_effect", "before_commit", "after_commit")
LEASE: Final = 1.0
PATIENCE: Final = 60.0
TABLE: Final = "FROZEN_TABLE"
POINT: Final = "FROZEN_AT"
BATCH: Final = "FROZEN_BATCH"


def make_app() -> Duly:
    """The same in the zombie and in the worker that takes over: everything else is in the environment."""
    app = Duly(lease=LEASE, poll="50ms", grace="10s")

    @app.task(name="charge", delivery="exactly_once")
    def charge(run: Run) -> None:
        stop_at("before_effect", run)
        insert = "insert into {} (job, epoch) values ({}, {})"
        run.connection.execute(insert.format(os.environ[TABLE], f"'{run.id}'", run.epoch))
        stop_at("after_effect", run)

    return app


# --- the zombie -----------------------------------------------------------------------------------

_stop = threading.Lock()


def stop_here() -> None:
    """Stop the process in this thread: told to the process, the thread would run on for a moment."""
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def stop_at(point: str, run: Run) -> None:
    """The zombie's first runs stop here: the whole process, once as many as can be here are here."""
    if os.environ.get(POINT) != point or run.epoch > 1:
        return
    is_alone = point == "after_effect" and os.environ["DULY_URL"].startswith("sqlite")
    if is_alone:  # SQLite lets one body at a time into its transaction
        stop_here()
        return
    _gather(int(os.environ[BATCH]))


_count = 0
_all_here = threading.Event()


def _gather(size: int) -> None:
    global _count  # noqa: PLW0603  one zombie per process
    with _stop:
        _count += 1
        is_last = _count == size
    if is_last:
        stop_here()
        _all_here.set()
    _all_here.wait(PATIENCE)


def be_zombie() -> None:
    """Run what there is, and stop where told to."""
    make_app().run(burst=True, concurrency=int(os.environ[BATCH]))


class Zombie:
    """The process that is frozen and woken, as its parent sees it."""

    def __init__(self, point: str, batch: int, log: Path) -> None:
        variables = {POINT: point, BATCH: str(batch)}
        if point.endswith("commit"):
            variables["DULY_FAILPOINTS"] = f"{point}=stop"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.frozen", "--zombie"],
                cwd=ROOT,
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.stops = 0
        self.code: int | None = None

    def wait(self) -> bool:
        """Until it stops (true) or ends (false)."""
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            self.stops += 1
            return True
        self.code = self._process.returncode = os.waitstatus_to_exitcode(status)
        return False

    def wake(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def end(self) -> None:
        if self.code is None:
            self._process.kill()
            self._process.wait()


# --- the rounds -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """What was seen."""

    rounds: int = 0
    faults: list[str] = field(default_factory=list[str])
    outcomes: Counter[str] = field(default_factory=Counter[str])


class Arena:
    """One store, one table, and the worker that takes over."""

    def __init__(self, url: str, folder: Path, namespace: str) -> None:
        os.environ |= {"DULY_URL": url, "DULY_NAMESPACE": namespace, TABLE: f"frozen_{namespace}"}
        self.app = make_app()
        self.app.open()
        self.effects = Effects(url, os.environ[TABLE], "job text, epoch int")
        self.is_sqlite = url.startswith("sqlite")
        self.log = folder / "zombies.log"

    def batch(self, point: str, size: int) -> Tally:
        """Freeze that many runs at a point, let others take over, wake them.

        A zombie that a busy machine keeps from its point for a whole lease shows nothing: then once more.
        """
        tally = self._batch(point, size)
        for _ in range(4):
            if tally.outcomes["not frozen"]:
                tally = self._batch(point, size)
        return tally

    def _batch(self, point: str, size: int) -> Tally:
        charge = self.app.get_task("charge")
        jobs = [charge.enqueue() for _ in range(size)]
        zombie = Zombie(point, size, self.log)
        try:
            self._freeze_and_wake(zombie, [job.id for job in jobs])
        finally:
            zombie.end()
        with working(self.app):
            self.app.jobs.wait_all(jobs, timeout=PATIENCE)
        return self._judge([self.app.jobs.get(job) for job in jobs], zombie)

    def _freeze_and_wake(self, zombie: Zombie, ids: list[str]) -> None:
        while zombie.wait():
            self._take_over(ids)
            zombie.wake()

    def _take_over(self, ids: list[str]) -> None:
        """Work until all is done, or for a while longer than the lease where the zombie holds the file."""
        until = time.monotonic() + PATIENCE
        if self.is_sqlite and self._is_held():
            time.sleep(LEASE * 1.3)
            return
        with working(self.app):
            while time.monotonic() < until and any(job.finished_at is None for job in self._look(ids)):
                time.sleep(0.02)

    def _is_held(self) -> bool:
        with self.effects.connect() as connection:
            connection.execute("pragma busy_timeout = 50")
            try:
                connection.execute("begin immediate")
                connection.execute("rollback")
            except Exception:
                return True
        return False

    def _look(self, ids: list[str]) -> list[Job]:
        return [self.app.jobs.get(job) for job in ids]

    def _judge(self, jobs: list[Job], zombie: Zombie) -> Tally:
        tally = Tally(rounds=len(jobs))
        if zombie.code != 0:
            tally.faults.append(f"the zombie ended with {zombie.code} after {zombie.stops} stops")
        if not zombie.stops:
            tally.outcomes["not frozen"] += 1
        for job in jobs:
            found = self._effects_of(job)
            completed = [line.epoch for line in job.history if line.event == "done"]
            tally.outcomes["taken over" if job.epoch > 1 else "its own"] += 1
            if job.state != "done" or len(completed) != 1 or found != completed:
                tally.faults.append(f"job {job.id} is {job.state}: effects {found}, completions {completed}")
        return tally

    def _effects_of(self, job: Job) -> list[int]:
        with self.effects.connect() as connection:
            rows = connection.execute(f"select epoch from {self.effects.name} where job = '{job.id}'")
            return [row[0] for row in rows]

    def close(self) -> None:
        self.app.close()
        self.effects.drop()


def play(arena: Arena, rounds: int, size: int) -> Tally:
    """So many rounds, over all points in turn."""
    total, turn = Tally(), 0
    while total.rounds < rounds and not total.faults:
        point = POINTS[turn % len(POINTS)]
        seen = arena.batch(point, min(size, rounds - total.rounds))
        total.rounds += seen.rounds
        total.faults += [f"{point}: {fault}" for fault in seen.faults]
        total.outcomes.update({f"{point}, {what}": count for what, count in seen.outcomes.items()})
        turn += 1
    return total


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zombie", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--batch", type=int, default=20)
    given = parser.parse_args(words)
    if given.zombie:
        be_zombie()
        return 0
    with tempfile.TemporaryDirectory(prefix="duly-frozen-") as folder:
        url = f"sqlite:///{folder}/duly.db" if given.store == "sqlite" else postgres_url()
        arena = Arena(url, Path(folder), f"frozen_{os.getpid()}" if given.store == "postgres" else "duly")
        try:
            tally = play(arena, given.rounds, given.batch)
        finally:
            arena.close()
    return _report(tally, given.store)


def _report(tally: Tally, store: str) -> int:
    lines: list[Any] = [f"{store}: {tally.rounds} rounds, {len(tally.faults)} faults"]
    lines += [f"  {what}: {count}" for what, count in sorted(tally.outcomes.items())]
    lines += [f"  FAULT {fault}" for fault in tally.faults]
    print("\n".join(lines), flush=True)
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
