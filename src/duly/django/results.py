"""A job as Django sees it: `TaskResult`, one of four statuses, an error for each attempt that failed."""

from __future__ import annotations

import builtins
import dataclasses
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

from duly import codec
from duly.django import compat
from duly.errors import DulyError
from duly.job import HistoryLine, Job, State
from duly.lifecycle import gist

STATUSES: Final = {
    State.WAITING: compat.TaskResultStatus.READY,
    State.RUNNING: compat.TaskResultStatus.RUNNING,
    State.DONE: compat.TaskResultStatus.SUCCESSFUL,
    State.FAILED: compat.TaskResultStatus.FAILED,
    State.CANCELLED: compat.TaskResultStatus.FAILED,
    State.SKIPPED: compat.TaskResultStatus.FAILED,
}
LOST: Final = "lease ran out"
"""The line of a worker that died with the job: when it started is not known, that it tried is."""
FAILURES: Final = ("retry", "fail", "crash", "interrupt", LOST)
"""Lines of a job's history that tell of an attempt gone wrong."""
CLASSES: Final = {
    State.CANCELLED: "duly.errors.JobCancelled",
    State.SKIPPED: "duly.errors.JobSkipped",
    State.FAILED: "duly.errors.JobFailed",
}
NOTE: Final = "django"
"""The name under which a job's context says what its path does not: backend, moment, what `using` changed."""

_FIRST_WORD: Final = re.compile(r"^(?P<path>[A-Za-z_][\w.]*)(?::|$)")


@dataclasses.dataclass(frozen=True, slots=True)
class Note:
    """What is needed to have the same TaskResult again."""

    backend: str | None = None
    using: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    enqueued_at: datetime | None = None

    def added_to(self, context: str) -> str:
        """The context of a request with this in it."""
        words = {"backend": self.backend, "using": dict(self.using), "enqueued_at": self.enqueued_at}
        said = {word: value for word, value in words.items() if value}
        return json.dumps({**read_context(context), NOTE: codec.pack_value(said)}) if said else context


def read_context(text: str) -> dict[str, Any]:
    """What was bound where the request was made; what cannot be read is nothing."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


def read_note(context: str) -> Note:
    """The note in a job's context."""
    text = read_context(context).get(NOTE)
    try:
        return Note(**codec.unpack_value(text)) if isinstance(text, str) else Note()
    except (DulyError, TypeError):  # written by another version, or by somebody else
        return Note()


def fresh_result(task: Any, job_id: str, call: tuple[Any, Any], at: datetime | None) -> Any:
    """A request that was just made."""
    args, kwargs = call
    return compat.TaskResult(
        task=task,
        id=job_id,
        status=compat.TaskResultStatus.READY,
        enqueued_at=local(at),
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=list(args),
        kwargs=dict(kwargs),
        backend=task.backend,
        errors=[],
        worker_ids=[],
    )


def result_of(job: Job, declared: Any) -> Any:
    """What the store knows of a job of this task."""
    note = read_note(job.context)
    task = as_used(declared, note)
    result = fresh_result(task, job.id, codec.unpack(job.arguments), note.enqueued_at or job.created_at)
    runs = [line for line in job.history if line.started_at is not None or line.event == LOST]
    started = [line.started_at for line in runs if line.started_at is not None]
    workers = [line.worker for line in runs] + ([job.worker] if job.state is State.RUNNING else [])
    fill(
        result,
        status=STATUSES[job.state],
        started_at=local(min(started, default=None)),
        last_attempted_at=local(max(started, default=None)),
        finished_at=local(job.finished_at),
        errors=errors_of(job),
        worker_ids=workers,
        _return_value=None if job.result is None else codec.unpack_value(job.result),
    )
    return result


def as_used(declared: Any, note: Note) -> Any:
    """The task as it was when it was enqueued; not checked again, since the settings may be others by now."""
    changes = {**note.using} | ({} if note.backend is None else {"backend": note.backend})
    if not changes:
        return declared
    used: Any = object.__new__(declared.__class__)
    for each in dataclasses.fields(declared):
        object.__setattr__(used, each.name, changes.get(each.name, getattr(declared, each.name)))
    return used


def fill(result: Any, **attributes: Any) -> None:
    """Django's results are frozen for those who read them, not for backends."""
    for name, value in attributes.items():
        object.__setattr__(result, name, value)


def local(moment: datetime | None) -> datetime | None:
    """As Django's `timezone.now()` gives moments: aware, or without USE_TZ in local time."""
    if moment is None or compat.settings.USE_TZ:
        return moment
    naive: datetime = compat.timezone.make_naive(moment, compat.timezone.get_default_timezone())
    return naive


# --- errors ---------------------------------------------------------------------------------------


def errors_of(job: Job) -> list[Any]:
    """One for each failed attempt. The store keeps all of the last one, of others what they said."""
    failed = [line for line in job.history if line.event in FAILURES]
    errors = [_earlier(line) for line in failed]
    if job.error is not None:
        errors[-1:] = [error_from(job.error, job.state)]
    elif STATUSES[job.state] == compat.TaskResultStatus.FAILED:
        errors.append(error_from(job.reason or str(job.state), job.state))
    return errors


def _earlier(line: HistoryLine) -> Any:
    text = line.note or f"Attempt {line.attempt + 1} on {line.worker} failed at {line.at.isoformat()}."
    if line.event == LOST:
        return compat.TaskError(exception_class_path="duly.errors.LeaseLost", traceback=text)
    return error_from(text, State.FAILED)


def error_from(text: str, state: State) -> Any:
    """An error out of its text: a traceback ends with the path of the class."""
    path = class_path(text) or CLASSES.get(state, CLASSES[State.FAILED])
    return compat.TaskError(exception_class_path=path, traceback=text)


def class_path(text: str) -> str | None:
    """The class that a traceback, or what is kept of one, names; None for a text that is none."""
    found = _FIRST_WORD.match(gist(text))
    if found is None:
        return None
    path = found["path"]
    return path if "." in path else f"builtins.{path}" if hasattr(builtins, path) else None
