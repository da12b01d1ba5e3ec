"""Which tasks a worker of the project must know: those it can see when it starts, and those it finds later.

Django tasks may be defined in any module. One that only the web process imports is noticed here by the work
that waits for it, and imported by its path.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from types import TracebackType
from typing import Final

from duly.app import App
from duly.django import compat
from duly.django.engines import backends_of, engine
from duly.django.registry import known, load, seen
from duly.errors import StoreError, UnknownTask
from duly.kinds import periodic

EVERY: Final = timedelta(seconds=5)
SHARE: Final = 50
"""Looking takes at most one fiftieth of the time, however many jobs there are to be counted."""


_tried: set[tuple[str, str, str]] = set()


def learn_seen(app: App) -> None:
    """Make known what is in `tasks` modules and what was imported by now."""
    compat.autodiscover_modules("tasks")
    for alias, path in seen():
        if engine(alias) is app:
            _learn(app, alias, path)


def learn_waiting(app: App) -> None:
    """Make known what work waits for; a store that is away is asked again later."""
    backends = backends_of(app)  # none where only schedules and reactions live
    try:
        for path in list(_waiting(app)) if backends else ():
            _learn_once(app, backends[0], path)
    except StoreError as error:
        compat.logger.debug("cannot look for tasks: %s", error)


def _waiting(app: App) -> Iterator[str]:
    """Paths of which the store has work, and this process no module yet."""
    for task, queue, _ in app.store.run(app.store.census()).jobs:
        if task not in app.tasks and queue != periodic.QUEUE:
            yield task


def _learn_once(app: App, alias: str, path: str) -> None:
    """The code of a process does not change: what was no task a moment ago is none now."""
    mark = (app.settings.url, app.settings.namespace, path)
    if mark not in _tried:
        _tried.add(mark)
        _learn(app, alias, path)


def _learn(app: App, alias: str, path: str) -> None:
    """A path that leads to no task is left alone, as every worker leaves alone what it does not know."""
    try:
        known(app, alias, load(path))
    except UnknownTask:
        compat.logger.debug("no task is at %s", path)
    except Exception:  # a module that cannot be imported must not keep the others from being run
        compat.logger.exception("the module of %s cannot be imported", path)


class Scout:
    """A thread that looks for work of tasks nobody here knows."""

    def __init__(self, app: App, every: timedelta = EVERY) -> None:
        self._app = app
        self._every = every.total_seconds()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="duly-scout", daemon=True)

    def __enter__(self) -> Scout:
        if backends_of(self._app):
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()

    def _work(self) -> None:
        pause = self._every
        while not self._is_over.wait(pause):
            began = time.monotonic()
            learn_waiting(self._app)
            compat.connections.close_all()
            pause = max(self._every, SHARE * (time.monotonic() - began))
