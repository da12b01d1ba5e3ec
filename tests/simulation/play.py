"""One play: three workers, two producers and bad weather, from one seed, in virtual time.

After the storm everything is mended; when nothing is left to do, the witness checks what was promised.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple

import pytest
from tests.simulation import machinery, shop
from tests.simulation.link import Link
from tests.simulation.stage import Process, Stage
from tests.simulation.weather import STORM, Blow, Strike, Weather
from tests.simulation.witness import Witness

from duly import Duly
from duly.durations import duration
from duly.errors import StoreUnavailable
from duly.job import Job
from duly.stores.contract import Page, Selection
from duly.stores.memory import MemoryStore
from duly.testing import VirtualClock
from duly.worker.worker import Worker

SLOTS: Final = 3
PRODUCERS: Final = 2
REQUESTS: Final = 25
LEASE: Final = "4s"
LONGEST = 600.0
PERPETUAL: Final = ("poll", "duly.schedules")


class Played(NamedTuple):
    """What a play amounted to."""

    seed: int
    steps: int
    seconds: float
    jobs: int
    runs: int
    takeovers: int
    refused: int
    faults: int


class SkewedClock:
    """A host whose clock is wrong. Only the store's counts."""

    def __init__(self, clock: VirtualClock, by: timedelta) -> None:
        self._clock = clock
        self._by = by

    def now(self) -> datetime:
        return self._clock.now() + self._by

    def boot(self) -> float:
        return self._clock.boot()


class NoLoop:
    """Where a worker without async tasks would schedule them."""

    def is_running(self) -> bool:
        return True

    def call_soon_threadsafe(self, act: Callable[..., object], *args: Any, context: Any = None) -> None:
        act(*args)


class Play:
    """The cast of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.stage = Stage(seed)
        self.weather = Weather(self.stage.dice, SLOTS)
        self.witness = Witness(self.stage, shop.LIMITS)
        self.store = MemoryStore("memory://simulated", clock=self.stage.clock)
        self.workers: dict[int, tuple[Process, Worker | None]] = {}
        self.starts = 0
        self.strikes = 0
        self.busy = PRODUCERS + 1
        self._look_at = STORM + 5
        self.promised: dict[str, str] = {}
        """Jobs whose enqueue was acknowledged, and their tasks."""

    def perform(self) -> Played:
        """The whole play; raises where a law is broken."""
        for slot in range(SLOTS):
            self._start_worker(slot)
        for number in range(PRODUCERS):
            self._start(f"producer-{number}", partial(self._produce, number))
        self._start("nemesis", self._strike_all)
        self.stage.play(self._is_quiet, longest=LONGEST)
        if self.stage.failures:
            raise self.stage.failures[0]
        jobs = self._jobs()
        self.witness.check_end(jobs, self.promised, ["poll"])
        self.witness.check_ticks(jobs, "tick", duration(shop.TICK_EVERY, what="step"))
        return Played(
            self.seed,
            self.stage.steps,
            self.stage.now,
            len(jobs),
            self.witness.runs,
            self.witness.takeovers,
            self.witness.refused,
            self.strikes + self.weather.lost,
        )

    def _is_quiet(self) -> bool:
        """The storm is over and nothing is left but what never ends."""
        if self.busy or self.stage.now < self._look_at:
            return False
        self._look_at = self.stage.now + 1.0
        return all(
            job.finished_at is not None or job.task == "poll" or _is_fresh(job) for job in self._jobs()
        )

    def _jobs(self) -> list[Job]:
        found = self.store.run(self.store.find(Selection(), Page(limit=100_000)))
        return [job for job in found if job.queue != "duly.schedules"]

    # processes

    def _start(self, name: str, act: Callable[[Duly, Process], None]) -> Process:
        process = Process(name)

        def live() -> None:
            skew = timedelta(seconds=self.stage.dice.uniform(-3600, 3600))
            clock = SkewedClock(self.stage.clock, skew)
            app = Duly("memory://", clock=clock, lease=LEASE, poll="500ms", grace="3s", concurrency=3)
            shop.define(app, shop.Body(self.stage, self.witness))
            link: Any = Link(self.stage, process, self.store, self.weather, self.witness)
            with app.standing_in(link, clock):
                act(app, process)

        self.stage.spawn(process, "main", live)
        return process

    def _start_worker(self, slot: int) -> None:
        self.starts += 1
        process = self._start(f"worker-{slot}.{self.starts}", partial(self._work, slot))
        self.workers[slot] = (process, None)

    def _work(self, slot: int, app: Duly, process: Process) -> None:
        worker = Worker(app, name=process.name)
        self.workers[slot] = (process, worker)
        worker._serve(NoLoop())  # type: ignore[arg-type]

    # faults

    def _strike_all(self, app: Duly, process: Process) -> None:
        for strike in self.weather.strikes:
            self.stage.pause(max(0.0, strike.at - self.stage.now))
            self._strike(strike)
        self.stage.pause(max(0.0, STORM - self.stage.now))
        for slot, (victim, _) in list(self.workers.items()):
            if victim.is_dead:  # a body took it along
                self._start_worker(slot)
        self.busy -= 1
        while True:  # bodies may kill their worker at any time
            self.stage.pause(1.0)
            for slot, (victim, worker) in list(self.workers.items()):
                if victim.is_dead or (worker is not None and worker.is_stopping):
                    self._start_worker(slot)

    def _strike(self, strike: Strike) -> None:
        self.strikes += 1
        process, worker = self.workers[strike.slot]
        self.witness.trail.append(f"{self.stage.now:9.4f} {strike.blow} {process.name} {strike.seconds:.2f}")
        match strike.blow:
            case Blow.KILL:
                self.stage.kill(process)
            case Blow.FREEZE:
                self.stage.freeze(process, strike.seconds)
                return
            case Blow.STOP:
                if worker is not None:
                    worker.stop()
        self.stage.pause(strike.seconds)
        self._start_worker(strike.slot)

    # requests

    def _produce(self, number: int, app: Duly, process: Process) -> None:
        dice = self.stage.dice
        for _ in range(REQUESTS):
            self.stage.pause(dice.expovariate(REQUESTS / STORM))
            act = dice.choice([self._enqueue, self._enqueue, self._enqueue, self._replace, self._cancel])
            try:
                act(app, number)
            except StoreUnavailable:
                continue  # nobody knows: it may have happened
        self.busy -= 1

    def _enqueue(self, app: Duly, number: int) -> None:
        task = self.stage.dice.choice(["plain", "once", "limited", "poison"])
        delay = self.stage.dice.choice([None, None, "2s"])
        job = app.get_task(task).using(run_after=delay).enqueue(self.stage.dice.randrange(1000))
        self.promised[job.id] = task

    def _replace(self, app: Duly, number: int) -> None:
        key = f"key-{number}"
        job = app.get_task("keyed").using(key=key, replace=True).enqueue(self.stage.dice.randrange(1000))
        self.witness.replaced("keyed", key, job.generation)
        self.promised[job.id] = "keyed"

    def _cancel(self, app: Duly, number: int) -> None:
        job = app.get_task("plain").using(run_after="20s").enqueue(0)
        self.promised[job.id] = "plain"
        self.stage.pause(1.0)
        if job.cancel():
            self.witness.cancelled(job.id)


def _is_fresh(job: Job) -> bool:
    """Ticks go on coming; one that was put just now need not have run."""
    return job.task == "tick" and job.state == "waiting"


@contextmanager
def quiet_logs() -> Generator[None, None, None]:
    """Workers in a storm have much to say."""
    logger = logging.getLogger("duly")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def perform(seed: int) -> Played:
    """Play one seed."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        stack.enter_context(quiet_logs())
        play = Play(seed)
        machinery.install(play.stage, patch)
        try:
            return play.perform()
        except BaseException as error:
            error.add_note(f"replay it with: python -m tests.simulation --seed {seed}")
            raise
        finally:
            play.stage.end()
