"""The clock a test holds: it moves time, runs what is due, and knows what was enqueued."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from itertools import count
from typing import Any, Final

from duly.app import AnyTask, App
from duly.durations import Duration, moment
from duly.errors import DulyError
from duly.job import LIVE, State
from duly.stores.contract import Selection
from duly.testing.clock import START, VirtualClock
from duly.testing.crew import Crew, Death, StillDue, Stillness, elsewhere
from duly.testing.drive import Driver, Steps, adrive
from duly.testing.enqueued import Call, Enqueued, find, listing, matching, name_of
from duly.testing.faults import Fault
from duly.testing.ran import Ran
from duly.testing.store import VirtualStore
from duly.testing.worker import Point

LIMIT: Final = 1_000
"""Turns at one instant after which something must be wrong."""
LONGEST: Final = 10_000
"""Turns in one stretch of time after which somebody should look why."""


class Frozen:
    """A run that stands still where the test froze it."""

    def __init__(self, clock: WorkingClock, *, beating: bool) -> None:
        self._clock = clock
        self.stillness = Stillness(beating=beating)

    @property
    def is_frozen(self) -> bool:
        """Whether a run stands still here now."""
        return self.stillness.course is not None

    def thaw(self) -> Ran:
        """Let the run go on to its end, as a process does that is continued."""
        return self._clock.driver.drive(self._clock.crew.thaw(self.stillness))

    async def athaw(self) -> Ran:
        """The async twin of thaw."""
        return await adrive(self._clock.crew.thaw(self.stillness))


class WorkingClock(VirtualClock):
    """Time for one application under test, and a worker that moves only when told to.

    Made by `duly.testing.virtual(app)`.
    """

    def __init__(self, app: App, start: datetime = START, transactions: Any = None) -> None:
        super().__init__(start)
        self.app = app
        self.store = VirtualStore(self, transactions)
        self.crew = Crew(app, self.store)
        self.driver = Driver()

    @property
    def runs(self) -> list[Ran]:
        """Every run so far, in the order they ended."""
        return list(self.crew.runs)

    # time

    def advance(self, span: Duration, *, run: bool = False) -> datetime:
        """Let time pass, and say what time it is then. With run=True everything runs at its moment."""
        if run:
            self.run_until(span)
            return self.now()
        self._check()
        self.crew.seed()
        now = super().advance(span)
        self.crew.beat()
        return now

    def reach(self, instant: datetime) -> None:
        if instant > self.now():
            super().advance(instant - self.now())
            self.crew.beat()

    # running

    def run_due(self, *, limit: int = LIMIT) -> list[Ran]:
        """Run what is due now, and what becomes due by that, until nothing is; time stands still."""
        return self.driver.drive(self._due(limit))

    async def arun_due(self, *, limit: int = LIMIT) -> list[Ran]:
        """The async twin of run_due: async tasks run on the caller's loop."""
        return await adrive(self._due(limit))

    def run_until(self, end: datetime | Duration, *, limit: int = LONGEST) -> list[Ran]:
        """Go from due moment to due moment up to a time, or for a span, running everything when it is due."""
        return self.driver.drive(self._until(moment(end, self.now(), what="end"), limit))

    async def arun_until(self, end: datetime | Duration, *, limit: int = LONGEST) -> list[Ran]:
        """The async twin of run_until."""
        return await adrive(self._until(moment(end, self.now(), what="end"), limit))

    def _due(self, limit: int) -> Steps[list[Ran]]:
        self._check()
        return (yield from self.crew.round(limit)).runs

    def _until(self, end: datetime, limit: int) -> Steps[list[Ran]]:
        runs = yield from self.stretch(end, limit, is_over=lambda: False)
        self.reach(end)
        return runs

    def stretch(self, end: datetime | None, limit: int, *, is_over: Callable[[], bool]) -> Steps[list[Ran]]:
        """Rounds at every due moment up to `end`, or until it is over."""
        self._check()
        runs: list[Ran] = []
        for moments in count(1):
            ran, next_at, is_cut_short = yield from self.crew.round(min(limit, LIMIT))
            runs.extend(ran)
            if is_over():
                break
            if moments + len(runs) > limit:
                raise StillDue(self.now(), runs, limit)
            if is_cut_short:
                continue
            if next_at is None or (end is not None and next_at > end):
                break
            self.reach(next_at)
        return runs

    # what was enqueued

    def enqueued(
        self, task: AnyTask | str | None = None, *, key: str | None = None, state: State | str | None = None
    ) -> list[Enqueued]:
        """Jobs somebody asked for, oldest first, whatever became of them, with their arguments."""
        return find(
            self.store,
            Selection(
                tasks=() if task is None else (name_of(self.app, task),),
                key=key,
                states=() if state is None else (State(state),),
            ),
        )

    def count_enqueued(self, task: AnyTask | str, *args: Any, **kwargs: Any) -> int:
        """How often such a call was enqueued."""
        return len(matching(self.enqueued(), self._call(task, args, kwargs)))

    def assert_enqueued(self, task: AnyTask | str, *args: Any, **kwargs: Any) -> Enqueued:
        """Such a call was enqueued: the newest one is returned.

        Positional arguments, if any are given, must be all the call's own; keywords need not be all.
        """
        __tracebackhide__ = True
        call, entries = self._call(task, args, kwargs), self.enqueued()
        found = matching(entries, call)
        if not found:
            raise AssertionError(f"{call} was not enqueued.\n{listing(entries, 'Enqueued were:')}")
        return found[-1]

    def assert_enqueued_times(self, times: int, task: AnyTask | str, *args: Any, **kwargs: Any) -> None:
        """Such a call was enqueued exactly so often."""
        __tracebackhide__ = True
        call, entries = self._call(task, args, kwargs), self.enqueued()
        found = matching(entries, call)
        if len(found) != times:
            raise AssertionError(
                f"{call} was enqueued {len(found)} times, not {times}.\n{listing(entries, 'Enqueued were:')}"
            )

    def assert_not_enqueued(self, task: AnyTask | str, *args: Any, **kwargs: Any) -> None:
        """No such call was enqueued."""
        __tracebackhide__ = True
        call = self._call(task, args, kwargs)
        found = matching(self.enqueued(), call)
        if found:
            raise AssertionError(f"{call} was enqueued.\n{listing(found, 'It is:')}")

    def assert_nothing_waiting(self, task: AnyTask | str | None = None, *, key: str | None = None) -> None:
        """No job that somebody asked for waits or runs."""
        __tracebackhide__ = True
        found = [entry for entry in self.enqueued(task, key=key) if entry.state in LIVE]
        if found:
            raise AssertionError(f"Not everything is finished.\n{listing(found, 'Left are:')}")

    def _call(self, task: AnyTask | str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        known = self.app.get_task(task) if isinstance(task, str) else task
        return Call(known, args, kwargs)

    # faults

    @contextmanager
    def crash_at(
        self,
        point: Point,
        *,
        task: AnyTask | str | None = None,
        key: str | None = None,
        nth: int | None = None,
    ) -> Generator[None, None, None]:
        """Inside the block the worker dies whenever a run gets to this point (or only the nth time).

        It dies like a killed process: nothing more is written, and its lease must run out before
        another worker may take the job.
        """
        name = None if task is None else name_of(self.app, task)
        fault: Fault[Death | Stillness] = Fault(point=point, brings=Death(), task=name, key=key, nth=nth)
        with self.crew.faults.armed(fault):
            yield

    @contextmanager
    def freeze_at(
        self,
        point: Point,
        *,
        task: AnyTask | str | None = None,
        key: str | None = None,
        nth: int = 1,
        beating: bool = False,
    ) -> Generator[Frozen, None, None]:
        """Inside the block one run stands still when it gets to this point, until `thaw()`.

        Like a process stopped by SIGSTOP: its lease runs out if enough time passes. With beating=True it
        is merely slow: its heartbeat goes on.
        """
        frozen = Frozen(self, beating=beating)
        name = None if task is None else name_of(self.app, task)
        fault: Fault[Death | Stillness] = Fault(
            point=point, brings=frozen.stillness, task=name, key=key, nth=nth
        )
        with self.crew.faults.armed(fault):
            yield frozen

    def elsewhere(self) -> AbstractContextManager[None]:
        """Inside a body: what happens in this block happens in another process, not in this run."""
        return elsewhere()

    # the end

    def _check(self) -> None:
        if self.app.clock is not self:
            raise DulyError(
                "This virtual clock no longer belongs to its application: use it inside `with virtual(app)`."
            )

    def close(self) -> None:
        """End the private loop of async tasks."""
        self.driver.close()
