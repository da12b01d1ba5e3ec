"""What people may see of jobs in the admin.

A task says which of its arguments are nobody's business (`redact`), and `duly.secrecy` hides them.
Two kinds of tasks are looked for here: the project's own, and those that the engine alone knows.
"""

from __future__ import annotations

import json
from typing import Any, Final

from duly.app import App
from duly.django.registry import load
from duly.django.scheduling import TICK
from duly.errors import UnknownTask
from duly.job import Job
from duly.secrecy import HIDDEN, Discretion

HANDED_IN: Final = ("run", "context")
UNKNOWN: Final = "not shown: the code of this task is not here"


def call_shown(app: App, job: Job) -> str:
    """The arguments of a job as JSON, without what is not to be seen."""
    task, call = _asked_for(job)
    return _written(_discretion(task, app), call)


def job_shown(app: App, job: Job) -> Job:
    """The job with stars where its texts quote what is not to be seen of its call."""
    task, call = _asked_for(job)
    return _discretion(task, app).job(job, call)


def wish_shown(wish: dict[str, Any]) -> str:
    """The same for what an execution hands over."""
    return _written(_discretion(str(wish.get("task"))), _wished(wish))


def _written(discretion: Discretion, call: Any) -> str:
    seen = discretion.call(call)
    return UNKNOWN if seen == HIDDEN else json.dumps(seen, ensure_ascii=False)


def _asked_for(job: Job) -> tuple[str, Any]:
    """The task and the call; of a tick, those that it hands over."""
    call = json.loads(job.arguments)
    if job.task != TICK:
        return job.task, call
    wish = call[0][0]
    return str(wish.get("task")), _wished(wish)


def _wished(wish: dict[str, Any]) -> Any:
    return [wish.get("args", []), wish.get("kwargs", {})]


def _discretion(name: str, app: App | None = None) -> Discretion:
    try:
        task = load(name)
    except UnknownTask:
        known = None if app is None else app.tasks.get(name)
        return (
            Discretion(None) if known is None else Discretion(known.function, known.options.redact, HANDED_IN)
        )
    return Discretion(task.func, getattr(task, "redact", ()), HANDED_IN)
