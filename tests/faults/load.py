"""Work under way while a server fails: who asks for it, what became of each request, and when it went on.

A producer that is refused asks again, so a request may be stored twice under two ids; what counts is every
id that was acknowledged. A worker that the machine leaves without time loses its leases, and others run its
jobs again: that is no fault of the engine, so such gaps are known and excused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar

from tests.faults import work
from tests.faults.crew import WorkerProcess

from duly import Duly, State, StoreUnavailable
from duly.stores.contract import Selection

PACE: Final = 0.01
"""Seconds between two requests."""
SLOW_EACH: Final = 20
"""One request in so many is for a body that takes a while."""
LIVE: Final = (State.WAITING, State.RUNNING)
PATIENCE: Final = 60.0


@dataclass(slots=True)
class Window:
    """From when to when the server misbehaved, by both clocks of the machine."""

    began: float = field(default_factory=time.monotonic)
    wall_began: float = field(default_factory=time.time)
    ended: float = 0.0
    wall_ended: float = 0.0
    processor: float = 0.0
    """The share of one processor that the busiest worker used meanwhile."""

    def close(self) -> None:
        self.ended, self.wall_ended = time.monotonic(), time.time()

    @property
    def seconds(self) -> float:
        return self.ended - self.began


@dataclass(slots=True)
class Run:
    """One try of one job, as its body saw it."""

    job: str
    epoch: int
    began: float
    ended: float | None = None


class Producer:
    """A thread that enqueues without end, and asks again when it is refused."""

    def __init__(self, app: Duly) -> None:
        self._tasks = [app.tasks[name] for name in ("tests.faults.work.quick", "tests.faults.work.slow")]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="producer")
        self.accepted: list[str] = []
        self.refusals: list[str] = []
        self.longest_call = 0.0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _ask(self) -> None:
        number = 0
        while not self._is_over.wait(PACE):
            task = self._tasks[number % SLOW_EACH == 0]
            asked = time.monotonic()
            try:
                self.accepted.append(task.enqueue(number).id)
                number += 1
            except StoreUnavailable as error:
                self.refusals.append(str(error))
            self.longest_call = max(self.longest_call, time.monotonic() - asked)


class Load:
    """Two workers and a producer on one store."""

    def __init__(self, app: Duly, folder: Path, workers: int = 2) -> None:
        self.app = app
        self._folder = folder
        self.workers = [
            WorkerProcess(folder / f"worker-{number}.log", FAULTS_PULSE="yes") for number in range(workers)
        ]
        self.producer = Producer(app)
        self.windows: list[Window] = []

    def start(self) -> None:
        """Ask, and wait until all have come and work flows."""
        store = self.app.store
        until(lambda: len(store.run(store.workers())) == len(self.workers))
        self.producer.start()
        until(lambda: len(self.runs()) > 50)

    def end(self) -> None:
        self.producer.stop()
        for worker in self.workers:
            worker.end()

    @contextmanager
    def misbehaving(self) -> Generator[Window]:
        """While the block lasts the server cannot be relied on."""
        before = [worker.processor_seconds() for worker in self.workers]
        window = Window()
        yield window
        window.close()
        used = [
            worker.processor_seconds() - spent for worker, spent in zip(self.workers, before, strict=True)
        ]
        window.processor = max(used) / window.seconds
        self.windows.append(window)

    # what the bodies wrote down

    def runs(self) -> list[Run]:
        """In the order in which they began."""
        found: dict[tuple[str, int], Run] = {}
        for event, job, epoch, at in self._journal():
            if event == "began":
                assert (job, int(epoch)) not in found, f"job {job} began twice under one lease"
                found[job, int(epoch)] = Run(job, int(epoch), float(at))
            elif event == "ended":
                found[job, int(epoch)].ended = float(at)
        return list(found.values())

    def _journal(self) -> list[list[str]]:
        path = self._folder / work.JOURNAL
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def _gaps(self) -> list[Window]:
        """When the machine left a worker without time for longer than it can be late with a beat."""
        pulses: dict[str, list[float]] = {}
        for event, worker, _, at in self._journal():
            if event == "alive":
                pulses.setdefault(worker, []).append(float(at))
        late = self.app.settings.lease.total_seconds() / 4
        steps = (step for moments in pulses.values() for step in pairwise(moments))
        return [Window(began=began, ended=ended) for began, ended in steps if ended - began > late]

    def ends(self) -> list[float]:
        return sorted(run.ended for run in self.runs() if run.ended is not None)

    # how it went on

    def assert_recovery(self, window: Window) -> None:
        """Work begins again soon after the server's return, and then flows as before."""
        first, flowing = self._await_flow(window)
        print(
            f"away {window.seconds:.1f} s at {window.processor:.0%} of a processor; "
            f"work after {first:.2f} s, as before after {flowing:.2f} s"
        )
        assert first < PATIENCE / 2

    def await_work(self) -> None:
        """Something ends from now on."""
        now = time.monotonic()
        until(lambda: any(at > now for at in self.ends()))

    def await_notice(self, of: str) -> None:
        """Until the producer and every worker have met what is wrong with the server."""
        until(lambda: any(of in refusal for refusal in self.producer.refusals))
        until(lambda: all(of in worker.log for worker in self.workers))

    def _await_flow(self, window: Window) -> tuple[float, float]:
        usual = sum(window.began - 2 <= at < window.began for at in self.ends()) / 2

        def flows() -> tuple[float, float] | None:
            later = [at - window.ended for at in self.ends() if at > window.ended]
            for at in later:
                if sum(at <= other < at + 1 for other in later) >= usual / 4 and later[-1] >= at + 1:
                    return later[0], at
            return None

        return until(flows)

    # what must hold

    def assert_all_is_well(self, repeats: int | None = None) -> None:
        """Stop asking, wait until nothing is left to do, and look at all that happened."""
        self.producer.stop()
        store = self.app.store
        until(lambda: not store.run(store.count(Selection(states=LIVE))))
        runs = self.runs()
        self._assert_nothing_lost(runs)
        repeated = self._assert_one_at_a_time(runs)
        print(self._summary(runs), f"{repeated} of them again")
        assert repeats is None or repeated == repeats
        self._assert_calm()
        assert self.producer.longest_call < PATIENCE / 2

    def _summary(self, runs: Sequence[Run]) -> str:
        """The numbers of this test, for whoever wants to see them (pytest -rP)."""
        asked = f"{len(self.producer.accepted)} accepted, {len(self.producer.refusals)} refused"
        return f"{asked}, the longest call {self.producer.longest_call:.1f} s; {len(runs)} runs,"

    def _assert_nothing_lost(self, runs: Sequence[Run]) -> None:
        store, accepted = self.app.store, self.producer.accepted
        done = Selection(ids=tuple(accepted), states=(State.DONE,))
        assert store.run(store.count(done)) == len(accepted)
        assert set(accepted) <= {run.job for run in runs if run.ended is not None}

    def _assert_one_at_a_time(self, runs: Sequence[Run]) -> int:
        """Runs of one job never overlap, and only a fault makes a second one; answers how many there were.

        Where the machine stood still anything may have been run again.
        """
        gaps = self._gaps()
        tries: dict[str, list[Run]] = {}
        for run in runs:
            tries.setdefault(run.job, []).append(run)
        again = [each for each in tries.values() if len(each) > 1]
        repeated = 0
        for each in again:
            for earlier, later in pairwise(each):
                assert earlier.epoch < later.epoch, each
                if any(self._met(earlier, gap) for gap in gaps):
                    continue
                repeated += 1
                assert earlier.ended is None or earlier.ended <= later.began, each
                assert any(self._met(earlier, window) for window in self.windows), each
            self._assert_settled_once(each)
        return repeated

    def _met(self, run: Run, window: Window) -> bool:
        """Whether it was under way, or waiting to be settled, when the server misbehaved."""
        lease = self.app.settings.lease.total_seconds()
        ended = run.began + lease if run.ended is None else run.ended + 1.0
        return run.began <= window.ended + lease and ended >= window.began

    def _assert_settled_once(self, runs: Sequence[Run]) -> None:
        found = self.app.jobs.get(runs[0].job)
        assert [line.event for line in found.history].count("done") == 1, found.history
        assert found.epoch == runs[-1].epoch

    def _assert_calm(self) -> None:
        """Few words, and hardly any work, while there was nothing to be done."""
        long = [window for window in self.windows if window.seconds > 1]  # the counter's ticks are coarse
        assert all(window.processor < 0.5 for window in long), self.windows
        for worker in self.workers:
            for window in self.windows:
                said = [at for at in worker.said_at() if window.wall_began <= at <= window.wall_ended + 1]
                assert len(said) <= 2 * (window.seconds + 2), worker.log


T = TypeVar("T")


def until(look: Callable[[], T | None]) -> T:
    """Look until there is something to see."""
    deadline = time.monotonic() + PATIENCE
    while not (seen := look()):
        assert time.monotonic() < deadline, f"not within {PATIENCE:g} s"
        time.sleep(0.02)
    return seen
