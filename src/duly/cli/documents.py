"""Jobs, workers and switches as JSON documents: the keys scripts may rely on."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from duly.cli.words import last_line, stamp
from duly.job import HistoryLine, Job
from duly.kinds import periodic
from duly.stores.contract import Switch, WorkerCard

if TYPE_CHECKING:
    from duly.app import AnyTask

HIDDEN = "***"


def job_row(job: Job) -> dict[str, Any]:
    """A job as lists carry it."""
    return {
        "id": job.id,
        "task": job.task,
        "key": job.key,
        "state": str(job.state),
        "queue": job.queue,
        "priority": job.priority,
        "generation": job.generation,
        "epoch": job.epoch,
        "attempt": job.attempt,
        "crashes": job.crashes,
        "deferrals": job.deferrals,
        "ready_at": stamp(job.ready_at),
        "due": stamp(job.due),
        "created_at": stamp(job.created_at),
        "finished_at": stamp(job.finished_at),
        "tick": stamp(job.tick),
        "worker": job.worker,
        "reason": job.reason,
        "error": last_line(job.error) or None,
        "fingerprint": job.fingerprint,
    }


def job_document(job: Job, arguments: Any) -> dict[str, Any]:
    """A job with everything that may be shown."""
    return {
        **job_row(job),
        "error": job.error,
        "failed_at": stamp(job.failed_at),
        "cycle": job.cycle,
        "delivery": str(job.delivery),
        "expires_at": stamp(job.expires_at),
        "is_parked": job.is_parked,
        "is_suspect": job.is_suspect,
        "superseded_by": job.superseded_by,
        "wish": None if job.wish is None else str(job.wish),
        "progress": parsed(job.progress),
        "context": parsed(job.context),
        "arguments": arguments,
        "has_result": job.result is not None,
        "history": [history_line(line) for line in job.history],
    }


def history_line(line: HistoryLine) -> dict[str, Any]:
    """One thing that happened to a job."""
    return {
        "at": stamp(line.at),
        "event": line.event,
        "epoch": line.epoch,
        "generation": line.generation,
        "attempt": line.attempt,
        "worker": line.worker,
        "started_at": stamp(line.started_at),
        "note": line.note,
    }


def worker_row(card: WorkerCard, seen_at: datetime, *, is_live: bool) -> dict[str, Any]:
    """A worker and its last sign of life."""
    return {
        "id": card.id,
        "name": card.name,
        "host": card.host,
        "pid": card.pid,
        "started_at": stamp(card.started_at),
        "seen_at": stamp(seen_at),
        "is_live": is_live,
        "queues": list(card.queues),
        "tasks": [name for name in card.tasks if not name.startswith(periodic.PREFIX)],
        "slots": card.slots,
        "version": card.version,
    }


def switch_row(switch: Switch) -> dict[str, Any]:
    """Something held. A schedule is held by its own lane; people know it by its name."""
    scope, name = str(switch.scope), switch.name
    if name.startswith(periodic.PREFIX):
        scope, name = "schedule", name.removeprefix(periodic.PREFIX)
    return {"scope": scope, "name": name, "until": stamp(switch.until), "reason": switch.reason}


def parsed(text: str | None) -> Any:
    """Stored JSON as values; text that is none stays text."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def call_of(job: Job, task: AnyTask | None) -> Any:
    """`[args, kwargs]` as stored, without what the task's `redact` names."""
    call = parsed(job.arguments)
    return call if task is None else shown_call(call, task)


def shown_call(call: Any, task: AnyTask) -> Any:
    """A call without what the task's `redact` names."""
    hidden = set(task.options.redact)
    if not hidden or not _is_call(call):
        return call
    positional, named = call
    others = _collectors(task)[1]
    return [
        [
            HIDDEN if name in hidden else value
            for name, value in zip(names_of(task, call), positional, strict=True)
        ],
        {
            name: HIDDEN if name in hidden or (others in hidden and not _has(task, name)) else value
            for name, value in named.items()
        },
    ]


def call_text(task: str, call: Any) -> str:
    """A call as Python would write it."""
    if not _is_call(call):
        return f"{task}({call!r})"
    positional, named = call
    parts = [repr(value) for value in positional] + [f"{name}={value!r}" for name, value in named.items()]
    return f"{task}({', '.join(parts)})"


def _is_call(call: Any) -> bool:
    return isinstance(call, list) and [type(part) for part in call] == [list, dict]  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]


def names_of(task: AnyTask, call: Any) -> list[str]:
    """What the task calls each positional argument; `*rest` lends its name to all that it takes."""
    if not _is_call(call):
        return []
    rest, places = _collectors(task)[0], _places(task)
    return [*places, *(rest for _ in call[0][len(places) :])][: len(call[0])]


def _places(task: AnyTask) -> list[str]:
    """The parameters that a place alone can fill; what the engine hands in has none."""
    inlet = task.inlet.name if task.inlet else None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in _signature(task) if one.kind in kinds and one.name != inlet]


def _collectors(task: AnyTask) -> tuple[str, str]:
    """The names of `*rest` and `**others`; nothing where there are none."""
    found = {one.kind: one.name for one in _signature(task)}
    return found.get(inspect.Parameter.VAR_POSITIONAL, ""), found.get(inspect.Parameter.VAR_KEYWORD, "")


def _has(task: AnyTask, name: str) -> bool:
    return any(one.name == name for one in _signature(task))


def _signature(task: AnyTask) -> tuple[inspect.Parameter, ...]:
    return _parameters(task.function)


@lru_cache(maxsize=1000)
def _parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    """Read once: a page of fifty jobs asked 750 times, which was half of its time."""
    return tuple(inspect.signature(function).parameters.values())
