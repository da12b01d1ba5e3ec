"""Telling Django what becomes of a run: the result that its context shows, and the signals.

`task_started` is sent where the body runs. `task_finished` is sent by the worker's own process once the end
is on record, in a thread of its own: only then is it known whether another attempt comes, a run that lost
its lease has nothing to tell, and receivers that ask the store see what they are told.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from duly import codec
from duly.app import App
from duly.clock import SystemClock
from duly.django import child, compat
from duly.django.results import (
    NOTE,
    as_used,
    fill,
    fresh_result,
    local,
    read_context,
    read_note,
    result_of,
)
from duly.django.transactions import let_go
from duly.django.values import plain
from duly.errors import JobFailed
from duly.events import Event
from duly.job import Claim
from duly.run import Run
from duly.stores.contract import Page, Selection
from duly.tracebacks import describe

ENDS: Final = ("done", "fail", "skip")
"""Events after which there is nothing more to come."""
PERHAPS: Final = ("crash", "cancelled", "superseded")
"""Events after which the store must be asked."""


@dataclass(slots=True)
class Attempt:
    """One run, as Django sees it."""

    result: Any
    takes_context: bool
    keeps_result: bool
    bound: str
    """What the request was made under, without our own note."""
    place: tuple[str, int]
    error: BaseException | None = None

    @classmethod
    def begin(cls, app: App, declared: Any, run: Run, call: tuple[Any, Any]) -> Attempt:
        """Count it, and tell who listens."""
        claim = claim_of(run)
        result = _result_so_far(app, declared, claim, call)
        now = local(SystemClock().now())
        workers = result.worker_ids if claim.epoch > 1 else [worker_of(run)]
        fill(
            result,
            status=compat.TaskResultStatus.RUNNING,
            started_at=result.started_at or now,
            last_attempted_at=now,
            worker_ids=workers,
        )
        compat.signals().task_started.send_robust(sender_for(result), task_result=result)
        keeps = app.tasks[claim.task].options.keep_result is not None
        return cls(result, declared.takes_context, keeps, _without_note(claim.context), claim[:2])

    @property
    def context(self) -> tuple[Any, ...]:
        """What stands before the arguments."""
        return (compat.TaskContext(task_result=self.result),) if self.takes_context else ()

    def returned(self, value: Any) -> Any:
        """The value in plain JSON, as it is stored."""
        stored = plain(value, "the return value") if self.keeps_result else None
        fill(self.result, _return_value=stored)
        return stored

    @contextmanager
    def told(self) -> Generator[None]:
        """Remember how it ended until the store has taken it; the worker is another process for a child."""
        try:
            yield
        except BaseException as error:
            self.error = error
            raise
        finally:
            if not child.is_one():
                _ended[self.place] = self

    def finish(self, event: Event) -> None:
        """The result as it is on record now."""
        status = "SUCCESSFUL" if event.kind == "done" else "FAILED"
        fill(
            self.result,
            status=compat.TaskResultStatus[status],
            finished_at=local(SystemClock().now()),
            errors=[*self.result.errors, *([] if self.error is None else [_described(self.error)])],
        )


_ended: dict[tuple[str, int], Attempt] = {}
"""Runs whose end the store has not acknowledged yet, by job and epoch."""


def claim_of(run: Run) -> Claim:
    """What was lent."""
    return run._claim  # pyright: ignore[reportPrivateUsage]


def worker_of(run: Run) -> str:
    """Who runs it; nobody in a test without a worker."""
    counter = getattr(run.binding, "_counter", None)
    return str(getattr(counter, "worker", "")) or "no worker"


def sender_for(result: Any) -> Any:
    """Signals come from the class of the backend."""
    return compat.task_backends[result.backend].__class__


def _result_so_far(app: App, declared: Any, claim: Claim, call: tuple[Any, Any]) -> Any:
    """A first loan has no past: the store need not be asked."""
    if claim.epoch > 1 and (job := find_job(app, claim.id)) is not None:
        return result_of(job, declared)
    note = read_note(claim.context)
    return fresh_result(as_used(declared, note), claim.id, call, note.enqueued_at or claim.due)


def find_job(app: App, job_id: str, connection: Any = None) -> Any:
    """A job with its history, as the store or a caller's transaction sees it; None if there is none."""
    operation = app.store.find(Selection(ids=(job_id,)), Page(1, with_history=True))
    found = app.store.run(operation) if connection is None else app.store.run_on(connection, operation)
    return found[0] if found else None


def _without_note(context: str) -> str:
    words = read_context(context)
    words.pop(NOTE, None)
    return codec.pack_value(words)


def _described(error: BaseException) -> Any:
    kind = type(error)
    return compat.TaskError(
        exception_class_path=f"{kind.__module__}.{kind.__qualname__}", traceback=describe(error)
    )


# --- task_finished --------------------------------------------------------------------------------


class Reporter:
    """A thread that sends one signal after the other."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def submit(self, act: Callable[[], None]) -> None:
        """Have it done soon, in order."""
        self._waiting.put(act)
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name="duly-signals", daemon=True)
                self._thread.start()

    def drain(self, patience: timedelta = timedelta(seconds=10)) -> bool:
        """Wait until all that was submitted so far is done; False if it takes too long."""
        if self._thread is None:
            return True
        done = threading.Event()
        self.submit(done.set)
        return done.wait(patience.total_seconds())

    def _work(self) -> None:
        while True:
            act = self._waiting.get()
            let_go()
            try:
                act()
            except Exception:
                compat.logger.exception("task_finished could not be sent")
            finally:
                let_go()


REPORTER: Final = Reporter()


def listen_to(app: App) -> None:
    """Send the signals of the runs of this application."""
    app.events.subscribe(lambda event: _hear(app, event))


def _hear(app: App, event: Event) -> None:
    """In the pump's thread: nothing is asked or sent here."""
    attempt = _ended.pop((event.id, event.epoch), None)
    task = app.tasks.get(event.task)
    if task is None or task.function.__module__ != child.__name__:
        return
    if attempt is not None and event.kind in ("done", "fail"):
        attempt.finish(event)
        REPORTER.submit(lambda: _send(attempt.result, attempt.error))
    elif event.kind in (*ENDS, *PERHAPS):
        REPORTER.submit(lambda: _look_and_send(app, event.id))


def _look_and_send(app: App, job_id: str) -> None:
    """Ended by a limit, a death or an operator, or in a child: the store knows how."""
    from duly.django.registry import load

    job = find_job(app, job_id)
    if job is None or job.finished_at is None:
        return
    result = result_of(job, load(job.task))
    _send(result, JobFailed(job.error or job.reason) if result.errors else None)


def _send(result: Any, error: BaseException | None) -> None:
    """Inside an exception handler, so that receivers can log what went wrong."""
    sender = sender_for(result)
    if error is None or result.status == compat.TaskResultStatus.SUCCESSFUL:
        compat.signals().task_finished.send_robust(sender, task_result=result)
        return
    try:
        raise error
    except BaseException:
        compat.signals().task_finished.send_robust(sender, task_result=result)
