"""The scheduler: a worker for the ticks, and beside it a thread that looks after executions and rows.

Any number may run, in processes of their own or in a web server's: the engine gives each tick to one of them.
"""

from __future__ import annotations

import asyncio
import atexit
import importlib
import logging
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final

from duly.app import App
from duly.django import compat, reacting, scheduling
from duly.django.engines import database_engine
from duly.django.executions import ledgers
from duly.django.place import duly_setting
from duly.django.scheduling import QUEUE, bring, furnish
from duly.durations import duration
from duly.engine import Duly
from duly.errors import DefinitionError, StoreError
from duly.ledger.sweep import pause, sweep_calmly
from duly.worker import Worker

log = logging.getLogger("duly.django")

SLOTS: Final = 4
"""Ticks at once: each is one short transaction and one call of a backend."""
FAREWELL: Final = 5.0
REST: Final = 30.0


class Follower:
    """Has an engine know the schedules in the database, as they are now."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._brought: dict[str, dict[str, Any]] = {}
        self._complaints: dict[str, str] = {}

    def look(self) -> None:
        """Bring what is new or changed; what was deleted or disabled stands still from now on."""
        found = {row.name: declared for row in rows() if (declared := self._declared(row)) is not None}
        terms = {name: declared.terms() for name, declared in found.items()}
        changed = [found[name] for name in terms if self._brought.get(name) != terms[name]]
        for name in self._brought.keys() - terms.keys():
            self._app.schedule_terms.pop(name, None)
        self._app.schedule_terms.update(terms)
        self._brought = terms
        bring(self._app, changed)

    def _declared(self, row: Any) -> Any:
        """One row that cannot be served costs nobody but itself."""
        try:
            if row.name in scheduling.registry:
                raise DefinitionError(clash(row.name))
            declared = row.declared()
        except Exception as error:
            self._complain(row.name, str(error))
            return None
        self._complaints.pop(row.name, None)
        return declared

    def _complain(self, name: str, text: str) -> None:
        """Once: it is looked at every few seconds."""
        if self._complaints.get(name) != text:
            self._complaints[name] = text
            log.error("database schedule %r stands still: %s", name, text)


def rows() -> list[Any]:
    """The schedules of the database that are to run."""
    from duly.django.executions import main_database
    from duly.django.models import DatabaseSchedule

    return list(DatabaseSchedule.objects.using(main_database()).filter(enabled=True))


def clash(name: str) -> str:
    """What is wrong with a row of that name."""
    return f"the code declares a schedule {name!r} too. Rename the row, or the code's with name='…'."


def check_names() -> None:
    """At the start a clash is an error; later, when a row came in past the admin, a line in the log."""
    found: list[Any] = []
    with looking_calmly():
        found = rows()
    for row in found:
        if row.name in scheduling.registry:
            raise DefinitionError(f"Two schedules are named {row.name!r}: {clash(row.name)}")


@contextmanager
def looking_calmly() -> Generator[None, None, None]:
    """A database that is away or not migrated is a line in the log; the next look tries again."""
    try:
        yield
    except (StoreError, compat.DatabaseError) as error:
        log.warning("schedules in the database cannot be read (is `manage.py migrate` due?): %s", error)


class Tender:
    """A thread that sweeps executions and follows the schedules in the database."""

    def __init__(self, app: App) -> None:
        given = duly_setting().get("schedule_poll", "5s")
        self._every = duration(given, what="DULY['schedule_poll']", allow_zero=False)
        self._follower = Follower(app)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="duly-tender", daemon=True)

    def __enter__(self) -> Tender:
        with looking_calmly():
            self._follower.look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join(FAREWELL)

    def _work(self) -> None:
        sweep_at = 0.0
        while not self._is_over.is_set():
            with looking_calmly():
                self._follower.look()
            if time.monotonic() >= sweep_at:
                for one in ledgers():
                    sweep_calmly(one.sweep)
                sweep_at = time.monotonic() + pause(min(one.terms.interval for one in ledgers()))
            compat.connections.close_all()
            self._is_over.wait(pause(self._every))


class Scheduler:
    """Puts executions at their times and hands them over. `run` blocks; `start` and `stop` use a thread."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._worker: Worker | None = None
        self._is_over = threading.Event()

    def run(self, *, burst: bool = False) -> None:
        """Serve until a signal; with burst=True until nothing is due."""
        app = prepared()
        with Tender(app):
            app.run(queues=[QUEUE], concurrency=SLOTS, name=_name(), burst=burst)
        for one in ledgers() if burst else ():
            one.sweep()

    def start(self) -> None:
        """Serve in a thread of its own."""
        self._thread = threading.Thread(target=self._serve, name="duly-scheduler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish what is under way, for a moment; what is left another scheduler does."""
        self._is_over.set()
        if self._worker is not None:
            self._worker.stop()
        if self._thread is not None:
            self._thread.join(FAREWELL)

    def __enter__(self) -> Scheduler:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _serve(self) -> None:
        """Nobody watches a thread, so what ends it is told and it begins again after a while."""
        while not self._is_over.is_set():
            try:
                self._serve_once()
            except Exception:
                log.exception("the scheduler of this process stands still for %g s", REST)
            finally:
                compat.connections.close_all()
            self._is_over.wait(REST)

    def _serve_once(self) -> None:
        app = prepared()
        self._worker = app.worker(queues=[QUEUE], concurrency=SLOTS, name=_name())
        with Tender(app):
            asyncio.run(self._worker.serve())


@contextmanager
def beside(app: Duly, *, burst: bool) -> Generator[None, None, None]:
    """A worker of the engine that schedules are in is a scheduler too; one of another engine is not."""
    if app is not database_engine():
        yield
    elif burst:
        with looking_calmly():
            Follower(app).look()
        yield
    else:
        with Tender(app):
            yield


def learn(app: App) -> None:
    """What such a worker must know before it starts."""
    reacting.furnish(app)
    if app is database_engine():
        furnish(app)
        check_names()


def prepared() -> Duly:
    """The engine of the schedules, with all it must know."""
    app = database_engine()
    furnish(app)
    check_names()
    return app


def _name() -> str:
    import socket

    return f"scheduler {socket.gethostname()}:{os.getpid()}"


# --- starting by itself ---------------------------------------------------------------------------

_autostarted: dict[int, Scheduler] = {}
"""By process: a thread does not survive a fork, so a child starts one of its own."""


def autostart() -> None:
    """With DULY["autostart"]: the first request of a process that serves starts a scheduler in it.

    Commands, shells and tests serve no requests; a server that forks serves them in its children.
    """
    if duly_setting().get("autostart"):
        signals: Any = importlib.import_module("django.core.signals")
        signals.request_started.connect(_on_request, dispatch_uid="duly.django.autostart", weak=False)


def _on_request(**_: Any) -> None:
    if os.getpid() in _autostarted or is_testing():
        return
    _autostarted[os.getpid()] = scheduler = Scheduler()
    scheduler.start()
    atexit.register(scheduler.stop)


def is_testing() -> bool:
    """Django's test environment collects mail in an outbox, which exists nowhere else."""
    mail = sys.modules.get("django.core.mail")
    return hasattr(mail, "outbox")
