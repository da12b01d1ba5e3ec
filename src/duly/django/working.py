"""A worker inside a Django project: what it knows when it starts, and how it ends when the code changes."""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from duly.app import App
from duly.django.engines import engine
from duly.django.reporting import REPORTER
from duly.django.scouting import Scout, learn_seen, learn_waiting
from duly.durations import describe
from duly.engine import Duly
from duly.engine import serve as serve_here
from duly.events import Event
from duly.urls import masked
from duly.version import __version__
from duly.worker import Worker

Say = Callable[[str], None]

LAST_WORD: Final = timedelta(seconds=10)
"""For closing the loop; a body stuck in a thread must not keep the process for ever."""

before_serving: list[Callable[[App], None]] = []
"""What else an engine must know before one of its workers starts: schedules are added here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """How a worker is to work."""

    backend: str | None = None
    concurrency: int | None = None
    queues: list[str] | None = None
    burst: bool = False
    name: str | None = None
    grace: str | None = None
    max_jobs: int | None = None
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"

    @contextmanager
    def answering(self, app: App, worker: Worker) -> Generator[None]:
        """Metrics and health at a port, if there is to be one."""
        if self.metrics_port is None:
            yield
            return
        from duly.metrics import serve as serve_metrics

        with serve_metrics(app, port=self.metrics_port, host=self.metrics_host, worker=worker):
            yield

    def worker(self, app: Duly) -> Worker:
        """A worker by these orders."""
        return app.worker(
            concurrency=self.concurrency,
            queues=self.queues,
            burst=self.burst,
            name=self.name,
            grace=self.grace,
            max_jobs=self.max_jobs,
        )


def prepare(app: App) -> None:
    """Make the tasks of the project known: those in `tasks` modules, those imported by now, those waiting."""
    learn_seen(app)
    for act in before_serving:
        act(app)
    learn_waiting(app)


class Serving:
    """One worker of this process."""

    def __init__(self, orders: Orders, say: Say, *, tells_runs: bool) -> None:
        self._orders = orders
        self._say = say
        self._tells_runs = tells_runs
        self._worker: Worker | None = None
        self._ended = threading.Event()

    def run(self) -> None:
        """Serve until told to stop."""
        from duly.django.scheduler import beside

        app = engine(self._orders.backend)
        prepare(app)
        self._worker = worker = self._orders.worker(app)
        self._greet(app, worker)
        last_word = threading.Timer(LAST_WORD.total_seconds(), os._exit, (0,))
        last_word.daemon = True
        try:
            seen = self._orders.answering(app, worker)
            with seen, self._heard(app), Scout(app), beside(app, burst=self._orders.burst):
                asyncio.run(_serve_then_insist(worker, last_word))
            REPORTER.drain()
            app.close()
        finally:
            last_word.cancel()
            self._ended.set()
        self._say(f"worker {worker.name} has ended")

    def end(self, *args: Any, **kwargs: Any) -> None:
        """Hand back what runs: new code is to take over."""
        if self._worker is not None:
            self._worker.stop(now=True)
            self._ended.wait(LAST_WORD.total_seconds())

    def _greet(self, app: App, worker: Worker) -> None:
        queues = "all queues" if worker.queues is None else f"queues {', '.join(sorted(worker.queues))}"
        self._say(f"duly {__version__}, worker {worker.name} on {masked(app.settings.url)}")
        self._say(f"{len(app.tasks)} tasks, {queues}, {worker.concurrency} at a time; Ctrl-C stops")

    @contextmanager
    def _heard(self, app: App) -> Generator[None]:
        quiet = app.events.subscribe(self._tell) if self._tells_runs else lambda: None
        try:
            yield
        finally:
            quiet()

    def _tell(self, event: Event) -> None:
        took = "" if event.seconds is None else f" in {describe(timedelta(seconds=round(event.seconds, 3)))}"
        self._say(f"{event.kind} {event.task} {event.id}{took}{': ' if event.detail else ''}{event.detail}")


def serve(orders: Orders, say: Say, *, reloads: bool, tells_runs: bool) -> None:
    """Serve in this process; with `reloads` in a process of its own, anew whenever a file changes."""
    serving = Serving(orders, say, tells_runs=tells_runs)
    if not reloads:
        serving.run()
        return
    autoreload: Any = importlib.import_module("django.utils.autoreload")
    autoreload.file_changed.connect(serving.end, weak=False)
    try:
        autoreload.run_with_reloader(serving.run)
    finally:
        serving.end()


async def _serve_then_insist(worker: Worker, last_word: threading.Timer) -> None:
    """Closing a loop waits for what bodies left behind in threads; after a last word nobody does."""
    await serve_here(worker)
    last_word.start()
