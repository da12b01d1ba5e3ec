"""What was enqueued, as a test asks about it: calls with their arguments, and messages that show them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from duly.app import AnyTask, App
from duly.errors import WrongSignature
from duly.job import Job, State
from duly.kinds import periodic
from duly.stores.contract import Page, Selection
from duly.testing.ran import call_of, call_text
from duly.testing.store import VirtualStore

_ABSENT: Final = object()
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """A job as a test looks at it."""

    task: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    id: str
    key: str | None
    queue: str
    priority: int
    state: State
    ready_at: datetime | None
    """When a worker may take it, while it waits."""
    tick: datetime | None
    job: Job = field(repr=False)
    """The whole row."""

    def __str__(self) -> str:
        key = "" if self.key is None else f" key={self.key!r}"
        due = f", due {self.ready_at.isoformat()}" if self.ready_at and self.state is State.WAITING else ""
        return f"{call_text(self.task, self.args, self.kwargs)}{key} [{self.state}{due}]"


def enqueued_of(job: Job) -> Enqueued:
    """A row with its arguments rebuilt."""
    args, kwargs = call_of(job.arguments)
    return Enqueued(
        task=job.task,
        args=args,
        kwargs=kwargs,
        id=job.id,
        key=job.key,
        queue=job.queue,
        priority=job.priority,
        state=job.state,
        ready_at=job.ready_at,
        tick=job.tick,
        job=job,
    )


def find(store: VirtualStore, selection: Selection) -> list[Enqueued]:
    """Jobs that somebody asked for, oldest first: not the engine's own, nor what it seeds by itself."""
    jobs = store.run(store.find(selection, Page(limit=sys.maxsize)))
    asked = [job for job in jobs if job.queue != periodic.QUEUE and job.id not in store.unasked]
    return [enqueued_of(job) for job in reversed(asked)]


def name_of(app: App, task: AnyTask | str) -> str:
    """A task's name; a name that nobody registered is a mistake in the test."""
    return app.get_task(task).name if isinstance(task, str) else task.name


class Call:
    """The call a test expects: all positional arguments if any are given, and any keywords by name."""

    def __init__(self, task: AnyTask, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        _check_names(task, kwargs)
        self._task = task
        self._args = args
        self._kwargs = kwargs

    def __str__(self) -> str:
        if not self._args and not self._kwargs:
            return f"{self._task.name}(…)"
        return call_text(self._task.name, self._args, self._kwargs)

    def matches(self, entry: Enqueued) -> bool:
        """Whether a job is such a call."""
        if entry.task != self._task.name or (self._args and self._args != entry.args):
            return False
        named = _by_name(self._task, entry)
        return all(named.get(name, _ABSENT) == value for name, value in self._kwargs.items())


def _check_names(task: AnyTask, kwargs: Mapping[str, Any]) -> None:
    """A misspelt keyword would match nothing, and let an assertion that nothing matches pass."""
    parameters = inspect.signature(task.function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    for name in kwargs:
        if name not in parameters:
            raise WrongSignature(task.name, f"it has no parameter {name!r}")


def _by_name(task: AnyTask, entry: Enqueued) -> dict[str, Any]:
    bound = task.bind(entry.args, entry.kwargs)
    bound.apply_defaults()
    return {**bound.arguments, **entry.kwargs}


def listing(entries: Sequence[Enqueued], heading: str) -> str:
    """What was there, one line each."""
    if not entries:
        return "Nothing was enqueued."
    lines = [f"  {entry}" for entry in entries[:_SHOWN]]
    more = [f"  … and {len(entries) - _SHOWN} more"] if len(entries) > _SHOWN else []
    return "\n".join([heading, *lines, *more])


def matching(entries: Iterable[Enqueued], call: Call) -> list[Enqueued]:
    """Those that are such a call."""
    return [entry for entry in entries if call.matches(entry)]
