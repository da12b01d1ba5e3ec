"""One chaos run: warm-up, faults, quiet, dump. What happened is in files, which the checker judges."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.chaos.clocks import WallClock, build
from tests.chaos.crew import ROOT, Crew, Member, vitals
from tests.chaos.journal import FOLDER, PROCESS, Journal, boot
from tests.chaos.nemesis import Nemesis
from tests.chaos.places import Place, ServerPlace, make_place
from tests.chaos.plan import Step, make_plan
from tests.chaos.tables import OWN_TABLE, RATE, SEED

from duly import Duly
from duly.job import Job

MODULES: Final = {"w": "tests.chaos.worker", "p": "tests.chaos.producer"}
PATIENCE: Final = 60.0
"""How long a quiet system may go without finishing anything of what was asked of it, before the verdict."""
LONGEST_REST: Final = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Everything a run depends on; written at the head of its history."""

    store: str
    seed: int
    seconds: float
    lease: float = 2.0
    poll: float = 0.1
    grace: float = 2.0
    workers: int = 4
    producers: int = 2
    rate: float = 5.0
    """Requests per second and producer."""
    concurrency: int = 6
    kill_every: float = 1.0
    warm_up: float = 2.0


class ChaosRun:
    """Holds what is started, so that it is ended."""

    def __init__(self, conditions: Conditions, folder: Path) -> None:
        self.conditions = conditions
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.journal = Journal(folder, "runner")
        self.place: Place = make_place(
            conditions.store, folder, conditions.seed, conditions.workers + conditions.producers
        )
        self._library = build(folder)
        self._over = threading.Event()
        self._shared_clock: WallClock | None = None

    def perform(self) -> None:
        """From the start of the servers to the last line of the dump."""
        self.place.start()
        crew = Crew(self.folder, self.journal, self._variables())
        metronome = threading.Thread(target=self._measure_lag, name="chaos-metronome", daemon=True)
        metronome.start()
        try:
            self._go(crew)
        finally:
            crew.end()
            self._over.set()
            metronome.join(5)
            self.place.stop()

    def _go(self, crew: Crew) -> None:
        plan = self._plan()
        self._write_head(plan)
        self._create_schema()
        workers = [self._hire(crew, "w", number, road=number) for number in range(self.conditions.workers)]
        producers = [
            self._hire(crew, "p", number, road=self.conditions.workers + number)
            for number in range(self.conditions.producers)
        ]
        self._tend(crew, self.conditions.warm_up)
        nemesis = Nemesis(
            crew, workers, producers, self.place, self.journal, shares_clock=self.conditions.store == "sqlite"
        )
        self._attack(crew, nemesis, plan)
        self._quieten(crew, workers, producers)

    # stages

    def _attack(self, crew: Crew, nemesis: Nemesis, plan: list[Step]) -> None:
        self.journal.write("stage", name="faults")
        began = boot()
        for step in plan:
            self._tend(crew, began + step.at - boot())
            nemesis.start(step)
        self._tend(crew, began + self.conditions.seconds - boot())
        while any(thread.is_alive() for thread in nemesis.threads):
            self._tend(crew, 0.1)
        nemesis.wait()
        if isinstance(self.place, ServerPlace):
            self.place.calm()
        self.journal.write("stage", name="quiet")

    def _quieten(self, crew: Crew, workers: list[Member], producers: list[Member]) -> None:
        """No more requests, no more faults: what was asked for is finished, then the workers drain."""
        for producer in producers:
            producer.is_wanted = False
            crew.send(producer, signal.SIGTERM)
        with self._looking() as app:
            self._dump(app, "first")
            self._await_rest(crew, app)
            self._note_vitals(workers)
            self._dismiss(crew, workers)
            self._dump(app, "last")

    def _await_rest(self, crew: Crew, app: Duly) -> None:
        """At least long enough for everybody to have been heard of again."""
        began = last_progress = boot()
        fewest = len(self._unfinished(app))
        while boot() - last_progress < PATIENCE and boot() - began < LONGEST_REST:
            self._tend(crew, 0.5)
            left = len(self._unfinished(app))
            if not left and boot() - began > 2 * self.conditions.lease + 1:
                break
            if left < fewest:  # a slow machine works off its arrears: only standing still is a loss
                fewest, last_progress = left, boot()
        self.journal.write("rest", took=boot() - began, unfinished=self._unfinished(app))

    def _unfinished(self, app: Duly) -> list[str]:
        live = app.jobs.list(state=["waiting", "running"], limit=2000)
        return [job.id for job in live if _has_an_end(job)]

    def _dismiss(self, crew: Crew, workers: list[Member]) -> None:
        self.journal.write("stage", name="drain")
        for worker in workers:
            worker.is_wanted = False
            title = crew.send(worker, signal.SIGTERM)
            self.journal.write("fault", phase="end", what="terminate", target=title or "", begun=boot())
        deadline = boot() + self.conditions.grace + 20
        while not crew.all_over() and boot() < deadline:
            self._tend(crew, 0.05)
        self._tend(crew, 2.0)
        self.journal.write("stage", name="over")

    # what is written down

    def _write_head(self, plan: list[Step]) -> None:
        own = {FOLDER: str(self.folder), PROCESS: "describe"}
        environment = {**os.environ, **self._variables(), **own}
        told = subprocess.run(
            [sys.executable, "-c", "from tests.chaos import shop; print(shop.describe())"],
            cwd=ROOT,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        self.journal.write("conditions", **asdict(self.conditions), lacks=sorted(self._lacks()))
        self.journal.write("tasks", tasks=json.loads(told.stdout))
        for step in plan:
            self.journal.write("plan", **step.words())

    def _note_vitals(self, workers: list[Member]) -> None:
        for worker in workers:
            seen = vitals(worker.process.pid) if worker.process is not None else None
            if seen is not None:
                self.journal.write("vitals", who=worker.title, descriptors=seen[0], threads=seen[1])

    def _dump(self, app: Duly, name: str) -> None:
        """Every job, as the public interface shows it."""
        before: int | None = None
        self.journal.write("dump", name=name, phase="begin")
        while page := app.jobs.list(limit=500, before=before):
            for job in page:
                self.journal.write("state", dump=name, **_row(job))
            before = page[-1].generation
        tables = {table: self.place.rows(table) for table in ("orders", "effects")}
        self.journal.write("dump", name=name, phase="end", **tables)

    def _measure_lag(self) -> None:
        """How late this machine wakes a thread: time bounds are widened by it."""
        while not self._over.is_set():
            asked = boot()
            time.sleep(0.02)
            late = boot() - asked - 0.02
            if late > 0.05:
                self.journal.write("lag", seconds=round(late, 4))

    # odds and ends

    def _plan(self) -> list[Step]:
        wanted = self.conditions
        return make_plan(
            wanted.seed,
            wanted.store,
            wanted.seconds,
            workers=wanted.workers,
            kill_every=wanted.kill_every,
            without=self._lacks(),
        )

    def _lacks(self) -> frozenset[str]:
        """Faults that cannot be had on this machine."""
        clock = frozenset[str]() if self._library else frozenset({"step_clock"})
        return self.place.lacks | clock

    def _variables(self) -> dict[str, str]:
        wanted = self.conditions
        return {
            "DULY_URL": self.place.true_url,
            "DULY_LEASE": f"{wanted.lease}s",
            "DULY_POLL": f"{wanted.poll}s",
            "DULY_GRACE": f"{wanted.grace}s",
            "DULY_CONCURRENCY": str(wanted.concurrency),
            SEED: str(wanted.seed),
            RATE: str(wanted.rate),
            OWN_TABLE: "yes" if self.place.has_orders else "",
        }

    def _clock(self, name: str) -> WallClock:
        """On one file all processes share the host's clock; machines around a server have one each."""
        if self.conditions.store != "sqlite":
            return WallClock(self.folder / f"{name}.clock", self._library)
        self._shared_clock = self._shared_clock or WallClock(self.folder / "host.clock", self._library)
        return self._shared_clock

    def _hire(self, crew: Crew, letter: str, number: int, road: int) -> Member:
        name, module = f"{letter}{number}", MODULES[letter]
        return crew.add(name, self._clock(name), self.place.url_for(road), module)

    def _tend(self, crew: Crew, seconds: float) -> None:
        until = boot() + seconds
        while True:
            crew.tend()
            left = until - boot()
            if left <= 0:
                return
            time.sleep(min(0.05, left))

    def _create_schema(self) -> None:
        with self._looking() as app:
            app.open()

    @contextmanager
    def _looking(self) -> Generator[Duly]:
        """An application of the runner's own, on the straight way to the store."""
        app = Duly(self.place.true_url)
        try:
            yield app
        finally:
            app.close()


RECENT: Final = 5.0
ENDLESS: Final = ("pulse", "watch", "steady")


def _has_an_end(job: Job) -> bool:
    """Neither a perpetual, nor a schedule, nor a tick that has only just come."""
    is_new = job.tick is not None and job.due.timestamp() > time.time() - RECENT
    return not is_new and job.task not in ENDLESS and not job.queue.startswith("duly.")


def _row(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "task": job.task,
        "key": job.key,
        "generation": job.generation,
        "state": str(job.state),
        "epoch": job.epoch,
        "attempt": job.attempt,
        "crashes": job.crashes,
        "cycle": job.cycle,
        "reason": job.reason,
        "error": (job.error or "")[-200:],
        "tick": None if job.tick is None else job.tick.timestamp(),
        "due": job.due.timestamp(),
        "queue": job.queue,
        "finished_at": None if job.finished_at is None else job.finished_at.timestamp(),
    }
