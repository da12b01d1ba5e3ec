"""The imagined workers of a virtual world, and what strikes them.

One worker does everything as long as nothing happens to it. When it dies, freezes, or is in the middle of
a body that asks what is due, the next one starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import NamedTuple

from duly import context
from duly.app import App
from duly.converse import converse
from duly.errors import DulyError
from duly.job import Claim
from duly.kinds import periodic
from duly.run import current_run
from duly.schedules import register
from duly.testing.drive import Steps
from duly.testing.faults import Faults
from duly.testing.ran import Ran, record
from duly.testing.store import VirtualStore
from duly.testing.worker import Life, Point, VirtualWorker
from duly.worker.hand import Holding
from duly.worker.seeds import seeds


class StillDue(DulyError):
    """Work that is due again as soon as it was done, without end."""

    def __init__(self, now: datetime, runs: Sequence[Ran], limit: int) -> None:
        most = Counter(ran.task for ran in runs).most_common(3)
        often = ", ".join(f"{task} ({times} runs)" for task, times in most)
        super().__init__(
            f"After {limit} turns there is still something due at {now.isoformat()}: {often or 'schedules'}. "
            "Work that is due again at once never ends: give it a wait (every, defer, again), "
            "or pass a larger limit= if there is that much to do."
        )


class Round(NamedTuple):
    """What one look at the due work led to."""

    runs: list[Ran]
    next_at: datetime | None
    """When there may be more."""
    is_cut_short: bool
    """The worker died or froze: there may be more now."""


@dataclass(slots=True, eq=False)
class Course:
    """A run on its way, at home in one worker."""

    worker: VirtualWorker
    holding: Holding
    life: Life
    at: datetime


class Death:
    """The worker's process ends here: what it knew is gone, its lease runs out."""


class Stillness:
    """The run stops here until the test lets it go on; without a beat, its lease runs out meanwhile."""

    def __init__(self, *, beating: bool) -> None:
        self.beating = beating
        self.course: Course | None = None
        self.point: Point | None = None


@contextmanager
def elsewhere() -> Generator[None, None, None]:
    """As if in another process: no run is current, nothing is bound."""
    token = current_run.set(None)
    try:
        with context.unbound():
            yield
    finally:
        current_run.reset(token)


class Crew:
    """Workers as they are needed."""

    def __init__(self, app: App, store: VirtualStore) -> None:
        self.faults: Faults[Death | Stillness] = Faults()
        self.runs: list[Ran] = []
        self._app = app
        self._store = store
        self._workers: list[VirtualWorker] = []

    def seed(self) -> None:
        """Schedules and automatic perpetuals exist as soon as a worker is there."""
        with elsewhere():
            converse(self._store, register(self._store, self._app.schedule_terms))
            self._store.run(self._store.seed(seeds(self._app)))

    def beat(self) -> None:
        """Time has passed: whoever lives has renewed its lease."""
        for worker in self._workers:
            if worker.is_alive:
                worker.beat()

    def round(self, limit: int) -> Steps[Round]:
        """Everything that is due now, and what becomes due by that."""
        runs: list[Ran] = []
        with elsewhere():
            self.seed()
            worker = self._idle()
            for turn in count():
                claimed = worker.claim()
                if not claimed.claims:
                    return Round(runs, claimed.next_at, is_cut_short=False)
                if turn >= limit:
                    worker.refuse(claimed.claims[0])
                    raise StillDue(self._app.clock.now(), runs, limit)
                if claimed.claims[0].queue == periodic.QUEUE:
                    worker.tick(claimed)
                    continue
                runs.append((yield from self._conduct(worker, claimed.claims[0])))
                if worker.is_busy or not worker.is_alive:
                    break
        return Round(runs, None, is_cut_short=True)

    def _idle(self) -> VirtualWorker:
        for worker in self._workers:
            if worker.is_alive and not worker.is_busy:
                worker.beat()
                return worker
        worker = VirtualWorker(self._app, f"virtual-{len(self._workers) + 1}")
        self._workers.append(worker)
        return worker

    # one run

    def _conduct(self, worker: VirtualWorker, claim: Claim) -> Steps[Ran]:
        at, holding = self._app.clock.now(), worker.take(claim)
        return (yield from self.go_on(Course(worker, holding, worker.live(holding), at)))

    def go_on(self, course: Course) -> Steps[Ran]:
        """From where it is to its end, or to what strikes it on the way."""
        ran = yield from self._walk(course)
        self.runs.append(ran)
        return ran

    def _walk(self, course: Course) -> Steps[Ran]:
        life = course.life
        try:
            step = next(life)
            while True:
                if isinstance(step, str):
                    outcome = self._struck(step, course)
                    if outcome is not None:
                        return self._cut_off(course, outcome)
                    step = next(life)
                    continue
                try:
                    value = yield step
                except BaseException as error:
                    step = life.throw(error)
                else:
                    step = life.send(value)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        except BaseException:  # the test was interrupted, not the body
            course.worker.hand_back(course.holding)
            raise

    def _struck(self, point: Point, course: Course) -> str | None:
        match self.faults.at(point, course.holding.claim):
            case None:
                return None
            case Death():
                course.worker.is_alive = False
                course.life.close()
                return "crashed"
            case Stillness() as stillness:
                stillness.course, stillness.point = course, point
                course.worker.is_alive = stillness.beating
                return "frozen"

    def _cut_off(self, course: Course, outcome: str) -> Ran:
        state = course.worker.state_of(course.holding)
        return record(course.holding.claim, course.at, outcome, state)

    def thaw(self, stillness: Stillness) -> Steps[Ran]:
        """Let a run that stood still go on."""
        course, stillness.course = stillness.course, None
        if course is None:
            raise DulyError("Nothing stands still here: no run was frozen, or it went on already.")
        course.worker.is_alive = True
        with elsewhere():
            return (yield from self.go_on(course))
