"""One run: writers, workers that are killed and frozen by a plan, a quiet time, and a dump."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg
from tests.chaos.clocks import WallClock
from tests.chaos.crew import Crew
from tests.chaos.journal import FOLDER, PROCESS, Journal
from tests.reactive.convergence.writers import Database, Writer, prepare
from tests.servers import postgres_url

from duly.stores.contract import Page, Selection

TURN: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What was agreed on before it began."""

    store: str
    seed: int
    seconds: float = 60.0
    writers: int = 8
    documents: int = 1000
    workers: int = 3
    rate: float = 8.0
    """Transactions per second and writer."""
    fault_every: float = 1.2
    quiet: float = 180.0
    """Seconds after the last fault within which nothing may be left to do."""


class Fault(NamedTuple):
    """At a moment, one worker is killed, or frozen for a while."""

    at: float
    worker: int
    frozen_for: float
    """0 for a kill."""


def faults(terms: Terms) -> list[Fault]:
    """Made from the seed before anything runs."""
    chance = random.Random(terms.seed)
    found: list[Fault] = []
    at = min(2.0, terms.seconds / 5)
    while (at := at + chance.uniform(0.5, 1.5) * terms.fault_every) < terms.seconds:
        frozen_for = chance.choice((0.0, chance.uniform(0.2, 1.0), chance.uniform(2.0, 4.0)))
        found.append(Fault(at, chance.randrange(terms.workers), frozen_for))
    return found


@contextmanager
def place(terms: Terms, folder: Path) -> Generator[str, None, None]:
    """A database of the run's own, as a URL; what is left in it afterwards goes."""
    if terms.store == "sqlite":
        yield f"sqlite:///{folder / 'shop.db'}"
        return
    schema = f"converge_{os.getpid()}"
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute(f"create schema {schema}".encode())
    try:
        yield f"{postgres_url()}&options=-csearch_path%3D{schema}"
    finally:
        with psycopg.connect(postgres_url(), autocommit=True) as connection:
            connection.execute(f"drop schema {schema} cascade".encode())
            connection.execute(f"drop schema if exists {schema}_duly cascade".encode())


class Converging:
    """Performs a run; everything it learns is in files of its folder."""

    def __init__(self, terms: Terms, folder: Path) -> None:
        self.terms = terms
        self.folder = folder
        self._journal = Journal(folder, "runner")

    def perform(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "terms.json").write_text(json.dumps(asdict(self.terms)))
        with place(self.terms, self.folder) as url:
            os.environ |= self._variables(url) | {FOLDER: str(self.folder), PROCESS: "runner"}
            from tests.reactive.convergence.shop import ORDERS, app

            prepare(url, ORDERS, self.terms.documents, self._journal)
            crew = Crew(self.folder, self._journal, self._variables(url))
            try:
                writers = self._storm(crew, url)
                self._calm(crew, app)
                self._dump(app, url, writers)
            finally:
                crew.end()
                app.close()

    def _variables(self, url: str) -> dict[str, str]:
        own = f"converge_{os.getpid()}_duly" if self.terms.store == "postgres" else "duly"
        return {
            "DULY_URL": url,
            "DULY_NAMESPACE": own,
            "DULY_LEASE": "2s",
            "DULY_POLL": "100ms",
            "DULY_GRACE": "5s",
            "DULY_CONCURRENCY": "8",
        }

    def _storm(self, crew: Crew, url: str) -> list[Writer]:
        clock = WallClock(self.folder / "clock", None)
        for number in range(self.terms.workers):
            crew.add(f"worker{number}", clock, url, "tests.reactive.convergence.worker")
        terms = self.terms
        writers = [
            Writer(n, url, terms.seed, terms.documents, terms.rate, Journal(self.folder, f"writer{n}"))
            for n in range(terms.writers)
        ]
        for writer in writers:
            writer.start()
        self._strike(crew)
        for writer in writers:
            writer.stop()
        for writer in writers:
            writer.join()
            if writer.error is not None:
                raise writer.error
        return writers

    def _strike(self, crew: Crew) -> None:
        began = time.monotonic()
        plan, thaws = faults(self.terms), list[threading.Timer]()
        while (passed := time.monotonic() - began) < self.terms.seconds:
            while plan and plan[0].at <= passed:
                thaws += self._inflict(crew, plan.pop(0))
            crew.tend()
            time.sleep(TURN)
        for thaw in thaws:
            thaw.join()

    def _inflict(self, crew: Crew, fault: Fault) -> list[threading.Timer]:
        member = crew.members[fault.worker]
        if not fault.frozen_for:
            self._journal.write("kill", who=crew.send(member, signal.SIGKILL, whole_tree=True))
            return []
        who = crew.send(member, signal.SIGSTOP, whole_tree=True)
        process = member.process
        self._journal.write("freeze", who=who, seconds=fault.frozen_for)
        if who is None or process is None:
            return []
        thaw = threading.Timer(fault.frozen_for, crew.thaw_session, (process.pid,))
        thaw.start()
        return [thaw]

    def _calm(self, crew: Crew, app: Any) -> None:
        """No more faults: everything must come to rest."""
        until, quiet = time.monotonic() + self.terms.quiet, 0
        while quiet < 3 and time.monotonic() < until:
            crew.tend()
            time.sleep(0.3)
            quiet = 0 if self._is_busy(app) or self._retried(app) else quiet + 1
        self._journal.write("rested", is_quiet=quiet >= 3)

    def _is_busy(self, app: Any) -> bool:
        return bool(app.store.run(app.store.has_changes()) or app.jobs.count(state=["waiting", "running"]))

    def _retried(self, app: Any) -> int:
        """An operator looks at what the cap on crashes has put aside: its killer was the nemesis."""
        found = 0
        for task in ("receipt", "book"):
            for job in app.jobs.list(task=task, state="failed", error="crashed", limit=10_000):
                if app.reactions.retry(task, key=job.key, state="failed"):
                    self._journal.write("operator", task=task, key=int(job.key))
                    found += 1
        return found

    def _dump(self, app: Any, url: str, writers: list[Writer]) -> None:
        for task in ("receipt", "book"):
            before: int | None = None
            while jobs := app.store.run(app.store.find(Selection(tasks=(task,)), _page(before))):
                for job in jobs:
                    self._write_job(job)
                before = jobs[-1].generation
        database = Database(url)
        for key, status, total in database.say("select id, status, total from orders"):
            self._journal.write("row", key=key, row=[status, total])
        for key, total in database.say("select id, total from effect"):
            self._journal.write("effect", key=key, total=total)
        database.close()
        self._journal.write("over", longest_statement=max(writer.longest for writer in writers))

    def _write_job(self, job: Any) -> None:
        facts = {"id": job.id, "task": job.task, "key": int(job.key), "state": str(job.state)}
        order = {"generation": job.generation, "epoch": job.epoch, "attempt": job.attempt}
        events = [[line.event, line.epoch, line.note] for line in job.history]
        self._journal.write("job", **facts, **order, error=job.error, events=events)


def _page(before: int | None) -> Page:
    return Page(1000, before=before, with_history=True)
