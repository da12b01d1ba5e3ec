"""`on_failure`: what a task wants to happen when one of its jobs has failed for good."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from duly import codec
from duly.app import AnyTask
from duly.errors import DulyError
from duly.job import Request
from duly.lifecycle import CRASH_CAP, Again, Crash, Fail, Stop, Verdict
from duly.task import Task, build_request
from duly.wishes import Wishes
from duly.worker.hand import Holding

log = logging.getLogger("duly.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a hook is told."""

    id: str
    task: str
    key: str | None
    error: str
    reason: str


def hooks_for(holding: Holding, verdict: Verdict | None) -> tuple[Request, ...]:
    """A task as hook is enqueued in the very write that fails the job: both happen or neither."""
    hook = holding.task.options.on_failure
    failure = failure_of(holding, verdict)
    if failure is None or not isinstance(hook, Task):
        return ()
    try:
        return (build_request(cast(AnyTask, hook), Wishes(), codec.pack((failure.id, failure.error), {})),)
    except DulyError:  # the failure itself must be recorded, whatever becomes of its hook
        log.exception("on_failure of %s cannot be enqueued for job %s", failure.task, failure.id)
        return ()


def hook_call(holding: Holding, verdict: Verdict | None) -> Callable[[], None] | None:
    """A plain function as hook is called once the failure is on record; its own error is only logged."""
    hook = holding.task.options.on_failure
    failure = failure_of(holding, verdict)
    if failure is None or isinstance(hook, Task) or not callable(hook):
        return None

    def call() -> None:
        try:
            answer = hook(failure)
            if inspect.iscoroutine(answer):
                asyncio.run(answer)
        except Exception:
            log.exception("on_failure of %s failed for job %s", failure.task, failure.id)

    return call


def failure_of(holding: Holding, verdict: Verdict | None) -> Failure | None:
    """What a verdict that ends a job or a cycle in failure means; None for all others."""
    claim = holding.claim
    error, reason = None, ""
    if isinstance(verdict, Fail):
        error, reason = verdict.error, verdict.reason
    elif isinstance(verdict, Again | Stop) and verdict.error is not None:
        error, reason = verdict.error, "its cycle failed"
    elif isinstance(verdict, Crash) and verdict.counted and claim.crashes + 1 >= CRASH_CAP:
        error, reason = f"crashed: {verdict.evidence}", "crashed too often"
    if error is None:
        return None
    return Failure(id=claim.id, task=claim.task, key=claim.key, error=error, reason=reason)
