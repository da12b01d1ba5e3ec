"""A worker's log: one line per record for people, or one JSON object for programs.

Whatever is logged inside a run carries that run's job, also through a plain `logging.getLogger()`, and
what `duly.bind` bound. No value can forge a line: control characters are escaped, further lines indented.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from duly.cli.words import shown, span
from duly.context import bound
from duly.events import Event
from duly.run import current_run
from duly.tracing import current_ids
from duly.urls import masked
from duly.worker.isolation import COMPANIONS

RUNS: Final = "duly.run"
"""The logger of one line per finished run."""

CHILDREN: Final = "DULY_CHILD_LOGS"
"""The variable that tells child processes how their worker logs."""
CHILD_LOGS: Final = "duly.cli.childlogs"

LEVELS: Final = ("debug", "info", "warning", "error", "critical")
_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_JOB: Final = {
    "job_id": "job_id",
    "task_name": "task",
    "job_key": "key",
    "attempt": "attempt",
    "epoch": "epoch",
    "run_event": "event",
    "run_seconds": "seconds",
}
"""Attributes of a record, and what they are called in the log."""

WORDS: Final = {
    "retry": "will retry",
    "defer": "deferred",
    "release": "handed back",
    "crash": "crashed",
    "skip": "skipped",
    "stop": "stopped",
}
WARNED: Final = frozenset({"retry", "crash"})
TOLD: Final = frozenset({"fail", "lost", "superseded"})
"""Ends the worker logs itself, with all there is to say."""


def job_of(record: logging.LogRecord) -> dict[str, Any]:
    """The job a record is about: what it says itself, else the run it was logged in."""
    said = {name: vars(record)[at] for at, name in _JOB.items() if vars(record).get(at) is not None}
    run = current_run.get()
    if "job_id" in said or run is None:
        return said
    found = {"job_id": run.id, "task": run.task, "key": run.key, "attempt": run.attempt, "epoch": run.epoch}
    return {name: value for name, value in found.items() if value is not None}


def extras_of(record: logging.LogRecord) -> dict[str, Any]:
    """What the caller gave with `extra=`, beyond the job."""
    return {name: value for name, value in vars(record).items() if name not in _PLAIN and name not in _JOB}


class TextFormatter(logging.Formatter):
    """`2026-11-15 12:30:01.123 INFO duly.run: done …`"""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().isoformat(" ", "milliseconds")[:23]
        facts = " ".join(f"{name}={value}" for name, value in self._facts(record).items())
        text = record.getMessage() + (f"  [{facts}]" if facts else "")
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        first, *others = [shown(line) for line in masked(text).splitlines()] or [""]
        return "\n    ".join([f"{at} {record.levelname:<7} {shown(record.name)}: {first}", *others])

    def _facts(self, record: logging.LogRecord) -> dict[str, Any]:
        if record.name == RUNS or record.name.startswith("duly.worker"):
            return dict(bound())
        return {**job_of(record), **bound()}


class JsonFormatter(logging.Formatter):
    """One object per line; the keys are in docs/reference/cli.md."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **job_of(record),
            **current_ids(),
        }
        if context := dict(bound()):
            document["context"] = context
        if extras := extras_of(record):
            document["extra"] = extras
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return masked(json.dumps(document, default=str))


def set_up(*, level: str | None, form: str | None, verbosity: int) -> None:
    """Log to stderr, unless the application has set up its own logging and no option overrules it."""
    _tell_children(level=level, form=form, verbosity=verbosity)
    root = logging.getLogger()
    says_runs = verbosity > 0 or sys.stderr.isatty()
    logging.getLogger(RUNS).setLevel(logging.INFO if says_runs else logging.WARNING)
    if verbosity > 1:
        logging.getLogger("duly").setLevel(logging.DEBUG)
    if root.handlers and level is None and form is None:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root.handlers[:] = [handler]
    root.setLevel((level or "info").upper())


def _tell_children(**options: Any) -> None:
    """What bodies log in child processes belongs into the same log, in the same form."""
    os.environ[CHILDREN] = json.dumps(options)
    if CHILD_LOGS not in COMPANIONS:
        COMPANIONS.append(CHILD_LOGS)


def tells_runs(kind: str) -> bool:
    """Whether a line may come of it: most runs are done, and nobody asked to see each of them."""
    return kind != "done" or logging.getLogger(RUNS).isEnabledFor(logging.INFO)


def run_lines() -> Callable[[Event], None]:
    """A listener that logs one line per finished run."""
    log = logging.getLogger(RUNS)

    def listen(event: Event) -> None:
        level = logging.WARNING if _is_trouble(event) else logging.INFO
        if event.kind not in TOLD and log.isEnabledFor(level):
            log.log(level, "%s", run_line(event), extra=_extra(event))

    return listen


def _is_trouble(event: Event) -> bool:
    """A try that failed, or a perpetual's cycle that did."""
    return event.kind in WARNED or (event.kind in ("again", "stop") and bool(event.detail))


def run_line(event: Event) -> str:
    """State, task, id, key, duration, and a word about what went wrong."""
    parts = [WORDS.get(event.kind, event.kind), shown(event.task), event.id]
    if event.key is not None:
        parts.append(f"key={shown(event.key)}")
    if event.seconds is not None:
        parts.append(span(timedelta(seconds=event.seconds)))
    if event.detail:
        parts.append(f"({shown(event.detail)})")
    return " ".join(parts)


def _extra(event: Event) -> dict[str, Any]:
    return {
        "job_id": event.id,
        "task_name": event.task,
        "job_key": event.key,
        "attempt": event.attempt,
        "epoch": event.epoch,
        "run_event": event.kind,
        "run_seconds": None if event.seconds is None else round(event.seconds, 6),
    }
