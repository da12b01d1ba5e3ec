"""Bodies alone in a child process: those with a hard limit, and those a worker died of before.

A child that dies costs only its own job. What that means for the job is decided here, in the parent,
since nobody else saw it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import NamedTuple, Protocol

from duly.clock import Clock
from duly.executors.children import (
    ChildDied,
    ChildFailed,
    ChildNotStarted,
    Children,
    Errand,
    HardLimitExceeded,
    Stopped,
)
from duly.ids import spread
from duly.job import Delivery
from duly.kinds.outcome import Effects, Raised
from duly.lifecycle import CRASH_CAP, Again, Crash, Done, Release, Verdict
from duly.run import Run, decide, limit_exceeded
from duly.signals import Signal
from duly.tracing import record_killed
from duly.worker.endings import Concluded, failed, handed_back
from duly.worker.errand import (
    ENTRY,
    Report,
    can_travel,
    imports_of,
    order_for,
    unpack_report,
    unpack_signal,
)
from duly.worker.hand import Holding

COMPANIONS: list[str] = []
"""Modules that every child imports after the application's: they make it like its worker, as for its log."""


class Conclude(Protocol):
    """Takes a run's end from whatever thread it happens in."""

    def __call__(self, ended: Concluded) -> None: ...


class Isolation:
    """Child processes, opened when the first body needs one."""

    def __init__(
        self,
        *,
        slots: int,
        clock: Clock,
        worker: str,
        stop_grace: timedelta,
        tell: Callable[[Holding, Signal], None],
        conclude: Conclude,
        fail: Callable[[BaseException], None],
    ) -> None:
        self._slots = slots
        self._clock = clock
        self._worker = worker
        self._stop_grace = stop_grace
        self._tell = tell
        self._conclude = conclude
        self._fail = fail
        self._lock = threading.Lock()
        self._children: Children | None = None

    def start(self, holding: Holding, run: Run) -> None:
        """Run it in the next free child."""
        options = holding.task.options
        errand = Errand(
            ENTRY,
            order_for(holding.task, holding.claim, self._worker),
            soft_limit=options.soft_limit,
            hard_limit=options.hard_limit,
            imports=(*imports_of(holding.task), *COMPANIONS),
        )
        children = self._open_children()
        future = children.submit(errand, lambda message: self._tell(holding, unpack_signal(message)))
        holding.stop_by(lambda: children.stop(future, str(holding.halt), grace=self._stop_grace))
        future.add_done_callback(lambda future: self._child_ended(holding, run, future))

    def close(self, grace: timedelta) -> None:
        """End the children, whatever they are doing."""
        if self._children is not None:
            self._children.close(grace=grace)

    def _open_children(self) -> Children:
        with self._lock:
            if self._children is None:
                size = min(self._slots, max(2, (os.cpu_count() or 1) * 2))
                self._children = Children(size, search_path=sys.path, main_file=main_script())
            return self._children

    def _child_ended(self, holding: Holding, run: Run, future: Future[bytes]) -> None:
        try:
            failure = future.exception()
            if failure is None:
                self._conclude(reported(holding, unpack_report(future.result())))
            else:
                self._conclude(self._unreported(holding, self._child_verdict(holding, run, failure)))
        except BaseException as error:  # a callback's exception would be swallowed, and its slot with it
            self._fail(error)

    def _unreported(self, holding: Holding, verdict: Verdict) -> Concluded:
        """A child that died after its commit could not say so: the store is asked before anything is said."""
        if holding.task.options.delivery is not Delivery.EXACTLY_ONCE:
            return Concluded(holding, verdict)
        return Concluded(holding, verdict, meant=Done() if holding.task.cycle is None else Again())

    def _child_verdict(self, holding: Holding, run: Run, failure: BaseException) -> Verdict:
        match failure:
            case Stopped(reason=reason):
                return handed_back(holding, reason)
            case ChildNotStarted():
                return Release(timedelta(seconds=1), str(failure))
            case ChildFailed(name="duly.errors.UnknownTask") if not holding.task.options.needs_process:
                holding.task.is_homebound = True  # a suspect whom no child can find runs here after all
                return Release(note="no child process can find its task")
            case HardLimitExceeded() | ChildDied() | ChildFailed():
                return self._child_ending(holding, run, failure)
            case _:
                raise failure

    def _child_ending(
        self, holding: Holding, run: Run, failure: HardLimitExceeded | ChildDied | ChildFailed
    ) -> Verdict:
        """The body had started in there, and its process or its time is over."""
        options, claim, now = holding.task.options, holding.claim, self._clock.now()
        if isinstance(failure, ChildFailed):
            return failed(holding, failure.text, "failed")
        record_killed(claim, holding.started_at or now, str(failure))
        if options.delivery is Delivery.AT_MOST_ONCE:
            return failed(holding, str(failure), "interrupted, outcome unknown")
        if isinstance(failure, ChildDied):
            return crashed(holding, failure.evidence())
        ending = limit_exceeded(options, claim, failure.limit, now=now, spread=spread())
        return decide(options, holding.task.cycle, claim, ending, run.effects)


def reported(holding: Holding, report: Report) -> Concluded:
    """What a child says of its run."""
    return Concluded(holding, report.verdict, report.then, answer=report.answer, meant=report.meant)


def crashed(holding: Holding, evidence: str) -> Verdict:
    """Alone in its process, so the body did it. A perpetual's third death fails the cycle, not the task."""
    task, claim = holding.task, holding.claim
    if task.cycle is None or claim.crashes + 1 < CRASH_CAP:
        return Crash(evidence, counted=True)
    ending = Raised(f"crashed: {evidence}", reason="crashed too often")
    return decide(task.options, task.cycle, claim, ending, Effects())


def main_script() -> str | None:
    """The script this process was started with; None for `python -m`, whose modules are found by name."""
    main = sys.modules.get("__main__")
    return None if getattr(main, "__spec__", None) is not None else getattr(main, "__file__", None)


def runs_in_child(holding: Holding) -> bool:
    """Hard limits and suspects need a process of their own."""
    return (holding.task.options.needs_process or holding.claim.is_suspect) and can_travel(holding.task)


def needs_record(holding: Holding) -> bool:
    """A start that must be durable first: where nobody may start twice, and where deaths are counted."""
    return holding.task.options.delivery is Delivery.AT_MOST_ONCE or runs_in_child(holding)


class Start(NamedTuple):
    """What is recorded of a start."""

    isolated: bool
    once: bool


def kind_of_start(holding: Holding) -> Start:
    """The promise of the code that starts it counts, whatever it was when the job was enqueued."""
    return Start(runs_in_child(holding), holding.task.options.delivery is Delivery.AT_MOST_ONCE)
