"""What people may see of jobs in the admin.

A task says which of its arguments are nobody's business (`redact`), and `duly.secrecy` hides them.
Two kinds of tasks are looked for here: the project's own, and those that the engine alone knows.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from duly.app import App
from duly.django.registry import load
from duly.django.scheduling import TICK
from duly.errors import UnknownTask
from duly.job import Job
from duly.secrecy import HIDDEN, Discretion
from duly.secrecy.calls import is_call, parsed

log = logging.getLogger("duly.django")

HANDED_IN: Final = ("run", "context")
UNKNOWN: Final = "not shown: the code of this task is not here"


def call_shown(app: App, job: Job) -> str:
    """The arguments of a job as JSON, without what is not to be seen."""
    task, call = _asked_for(job)
    return _written(_discretion(task, app), call)


def job_shown(app: App, job: Job) -> Job:
    """The job with stars where its texts quote what is not to be seen of its call."""
    if not says_something(job):  # most of a list: whose code need not be looked for
        return job
    task, call = _asked_for(job)
    return _discretion(task, app).job(job, call)


def says_something(job: Job) -> bool:
    """Whether it has texts that could quote anything."""
    return bool(job.error or job.reason or job.result or job.progress or job.history)


def wish_shown(wish: dict[str, Any]) -> str:
    """The same for what an execution hands over."""
    return _written(_discretion(str(wish.get("task"))), _wished(wish))


def _written(discretion: Discretion, call: Any) -> str:
    seen = discretion.call(call)
    return UNKNOWN if seen == HIDDEN else json.dumps(seen, ensure_ascii=False)


def _asked_for(job: Job) -> tuple[str, Any]:
    """The task and the call; of a tick, those that it hands over."""
    call = parsed(job.arguments)
    if job.task != TICK or not is_call(call):
        return job.task, call
    wish = call[0][0]
    return str(wish.get("task")), _wished(wish)


def _wished(wish: dict[str, Any]) -> Any:
    return [wish.get("args", []), wish.get("kwargs", {})]


def _discretion(name: str, app: App | None = None) -> Discretion:
    task = _loaded(name)
    if task is not None:
        return Discretion(task.func, getattr(task, "redact", ()), HANDED_IN)
    known = None if app is None else app.tasks.get(name)
    if known is not None:
        return Discretion(known.function, known.options.redact, HANDED_IN)
    return Discretion(None)


def _loaded(name: str) -> Any:
    """The project's task, or None. A module that breaks when imported must not take the page with it."""
    try:
        return load(name)
    except UnknownTask:
        return None
    except Exception:
        log.warning("the code of %s cannot be imported; its arguments are not shown", name, exc_info=True)
        return None
