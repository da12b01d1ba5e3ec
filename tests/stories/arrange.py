"""What the stories share: workers that serve while a block lasts, and waiting that ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Protocol, TypeVar

from duly import Duly, Job, State, Worker
from duly.jobs import HasId

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds after which something that should happen at once will not happen any more."""


class OpenApp(Protocol):
    """Makes applications; all of one test share one store."""

    def __call__(self, **options: Any) -> Duly: ...


def until(predicate: Callable[[], T | None], timeout: float = PATIENCE) -> T:
    """Look until the predicate holds and return what it said; an AssertionError when time is up."""
    deadline = time.monotonic() + timeout
    while not (answer := predicate()):
        assert time.monotonic() < deadline, f"{predicate} does not hold after {timeout:g} s: {answer!r}"
        time.sleep(0.005)
    assert answer is not None
    return answer


class Gate:
    """A place in a body where the test can see it arrive and let it go on."""

    def __init__(self) -> None:
        self._reached = threading.Semaphore(0)
        self._opened = threading.Event()

    def open(self) -> None:
        """Let everybody pass, now and later."""
        self._opened.set()

    def wait_here(self) -> None:
        """In a body: say that it got here, then wait for the test."""
        self._reached.release()
        assert self._opened.wait(PATIENCE), "the test never opened this gate"

    async def await_here(self) -> None:
        """The same for a body on the loop."""
        self._reached.release()
        deadline = time.monotonic() + PATIENCE
        while not self._opened.is_set():
            assert time.monotonic() < deadline, "the test never opened this gate"
            await asyncio.sleep(0.005)

    def reached(self) -> None:
        """In the test: one body is here, or will be soon."""
        assert self._reached.acquire(timeout=PATIENCE), "no body came to this gate"


class Serving:
    """One worker in a thread of its own, with a loop of its own."""

    def __init__(self, app: Duly, options: dict[str, Any]) -> None:
        self.worker: Worker = app.worker(**options)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="story-worker")

    def start(self) -> None:
        self._thread.start()

    def _serve(self) -> None:
        try:
            asyncio.run(self.worker.serve())
        except BaseException as error:
            self._failure = error

    def leave(self) -> None:
        """Let it end before its store is closed, or it opens the store again and spoils the next story."""
        self._thread.join(2 * PATIENCE)

    def join(self, timeout: float = 2 * PATIENCE) -> None:
        """Wait for its end; what ended it, if not a stop, is raised here."""
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "the worker does not end"
        if self._failure is not None:
            raise self._failure


@contextmanager
def working(app: Duly, **options: Any) -> Generator[Worker, None, None]:
    """A worker serves while the block lasts, and finishes what it runs; in a hurry if the block fails."""
    serving = Serving(app, options)
    serving.start()
    try:
        yield serving.worker
    except BaseException:
        serving.worker.stop(now=True)
        serving.leave()
        raise
    serving.worker.stop()
    serving.join()


@contextmanager
def several_working(*apps: Duly, **options: Any) -> Generator[None, None, None]:
    """One worker for each of these, all in this process."""
    with ExitStack() as stack:
        for app in apps:
            stack.enter_context(working(app, **options))
        yield


def run_all(app: Duly, **options: Any) -> None:
    """Work until there is nothing to do now."""
    serving = Serving(app, {"burst": True, **options})
    serving.start()
    serving.join()


def ended(app: Duly, job: HasId | str, timeout: float = PATIENCE) -> Job:
    """The job with its history, once it has ended."""
    app.jobs.wait_all([job], timeout=timeout)
    return app.jobs.get(job)


def in_state(app: Duly, job: HasId | str, state: State | str, timeout: float = PATIENCE) -> Job:
    """The job, once it is in this state."""
    until(lambda: app.jobs.get(job).state == state, timeout)
    return app.jobs.get(job)


def events(job: Job) -> list[str]:
    """What happened to a job, in order."""
    return [line.event for line in job.history]
