"""`on_failure`: what a task wants to happen when one of its jobs has failed for good."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from duly import codec
from duly.job import Request
from duly.lifecycle import Fail, Verdict
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


def hooks_for(holding: Holding, verdict: Verdict) -> tuple[Request, ...]:
    """A task as hook is enqueued in the very write that fails the job: both happen or neither."""
    hook = holding.task.options.on_failure
    if not isinstance(verdict, Fail) or not isinstance(hook, Task):
        return ()
    arguments = codec.pack((holding.claim.id, verdict.error), {})
    return (build_request(hook, Wishes(), arguments),)


def call_hook(holding: Holding, verdict: Verdict) -> None:
    """A plain function as hook is called once the failure is on record; its own error is only logged."""
    hook = holding.task.options.on_failure
    if not isinstance(verdict, Fail) or isinstance(hook, Task) or not callable(hook):
        return
    claim = holding.claim
    failure = Failure(id=claim.id, task=claim.task, key=claim.key, error=verdict.error, reason=verdict.reason)
    try:
        hook(failure)
    except Exception:
        log.exception("on_failure of %s failed for job %s", claim.task, claim.id)
