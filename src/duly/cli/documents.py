"""Jobs, workers and switches as JSON documents: the keys scripts may rely on."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from duly.cli.words import last_line, stamp
from duly.job import HistoryLine, Job
from duly.kinds import periodic
from duly.secrecy.calls import is_call, parsed
from duly.stores.contract import Switch, WorkerCard


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


def call_text(task: str, call: Any) -> str:
    """A call as Python would write it."""
    if not is_call(call):
        return f"{task}({call!r})"
    positional, named = call
    parts = [repr(value) for value in positional] + [f"{name}={value!r}" for name, value in named.items()]
    return f"{task}({', '.join(parts)})"
