"""A perpetual task whose interval comes from settings that change while it runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal

from tests.stories.arrange import Gate, until

from duly import Duly, Handle, Job, Run
from duly.testing import VirtualClock

OLD, NEW = timedelta(hours=1), timedelta(minutes=1)
KEY = "deployment:7"

Overlap = Literal["allow", "queue_one"]
Finish = Callable[[Run, timedelta], None]


class CloudError(Exception):
    pass


def go_on(run: Run, interval: timedelta) -> None:
    run.again(after=interval)


class Watch:
    """A perpetual whose interval comes from settings that a user may change while it runs."""

    def __init__(
        self, app: Duly, overlap: Overlap = "queue_one", finish: Finish = go_on, **options: Any
    ) -> None:
        self.app = app
        self.settings = OLD
        self.gate = Gate()
        self.second_gate: Gate | None = None
        self.seen: list[timedelta] = []

        @app.perpetual(every="9h", overlap=overlap, **options)
        def watch(run: Run) -> None:
            interval = self.settings
            self.seen.append(interval)
            if interval == OLD:
                self.gate.wait_here()
            elif self.second_gate:
                self.second_gate.wait_here()
            (finish if interval == OLD else go_on)(run, interval)

        self.task = watch

    def start(self) -> Handle[None]:
        """A, held at its gate with the old settings in hand."""
        handle = self.task.using(key=KEY).enqueue()
        self.gate.reached()
        return handle

    def change(self, *, replace: bool = True) -> Handle[None]:
        """The user changes the settings, and the application forces a run."""
        self.settings = NEW
        return self.task.using(key=KEY, replace=replace).enqueue()

    def next_cycle(self) -> Job:
        """C: the one job that waits for the key."""
        until(lambda: any(job.cycle for job in self._waiting()))
        [job] = self._waiting()
        return job

    def _waiting(self) -> list[Job]:
        return self.app.jobs.list(key=KEY, state="waiting")


def due_in(job: Job, clock: VirtualClock) -> timedelta:
    assert job.ready_at is not None
    return job.ready_at - clock.now()


def _stop(run: Run, _: timedelta) -> None:
    run.stop()


def _fail(_: Run, __: timedelta) -> None:
    raise ValueError("stale")


def _want_to_retry(_: Run, __: timedelta) -> None:
    raise CloudError("stale")


def _defer(run: Run, interval: timedelta) -> None:
    run.defer(interval)


STALE: dict[str, Finish] = {
    "calls stop()": _stop,
    "fails": _fail,
    "fails and would retry": _want_to_retry,
    "defers itself": _defer,
}
