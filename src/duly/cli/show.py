"""`duly show`: one job with its history."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.documents import call_text, job_document
from duly.cli.exits import Exit
from duly.cli.jobs import when
from duly.cli.parser import Arguments, Parser
from duly.cli.redaction import Redaction
from duly.cli.tables import pairs, table
from duly.cli.target import offer_store, opened
from duly.cli.words import relative, shown, span
from duly.job import HistoryLine, Job
from duly.secrecy.calls import parsed

if TYPE_CHECKING:
    from duly.app import App


def arguments(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the job's id")
    offer_store(parser)
    parser.option(
        "--arguments",
        action="store_true",
        default=False,
        help="show the arguments even without the application, whose `redact` says what to hide",
    )
    offer_json(parser)


def run(args: Arguments) -> int:
    with opened(args) as app:
        job, call = _visible(app, app.jobs.get(args.id), with_arguments=args.arguments)
        now = app.clock.now()
    answer(args, job_document(job, call), _text(job, call, now))
    return Exit.OK


def _visible(app: App, job: Job, *, with_arguments: bool) -> tuple[Job, Any]:
    """The job and its call without secrets; no call where only the code could tell which they are."""
    redaction = Redaction(app)
    if redaction.knows(job.task):
        return redaction.job(job), redaction.call(job)
    return (job, parsed(job.arguments)) if with_arguments else (redaction.job(job), None)


def _text(job: Job, call: Any, now: datetime) -> str:
    parts = [pairs(_facts(job, call, now))]
    if job.history:
        parts.append(table(["when", "event", "epoch", "took", "worker", "note"], _history(job, now)))
    if job.error:
        parts.append("\n".join(shown(line) for line in job.error.splitlines()))
    return "\n\n".join(parts)


def _facts(job: Job, call: Any, now: datetime) -> list[tuple[str, str]]:
    is_hidden = call is None
    written = "hidden: say -a module:object, or --arguments" if is_hidden else call_text(job.task, call)
    facts = [
        ("job", job.id),
        ("task", job.task),
        ("key", job.key or ""),
        ("state", f"{job.state}{f' ({job.reason})' if job.reason else ''}, {when(job, now)}"),
        ("call", written),
        ("queue", f"{job.queue}, priority {job.priority}"),
        ("tick", job.tick.isoformat() if job.tick else ""),
        ("due", f"{job.due.isoformat()} ({relative(job.due, now)})"),
        ("asked for", relative(job.created_at, now)),
        ("counts", _counts(job)),
        ("fence", f"generation {job.generation}, epoch {job.epoch}"),
        ("delivery", str(job.delivery)),
        ("worker", job.worker),
        ("wish", str(job.wish or "")),
        ("superseded", f"by {job.superseded_by}" if job.superseded_by else ""),
        ("progress", job.progress or ""),
        ("context", "" if job.context == "{}" else job.context),
    ]
    return [(name, shown(value)) for name, value in facts if value]


def _counts(job: Job) -> str:
    crashes = f", {job.crashes} deaths in isolation" if job.crashes else ""
    return f"{job.attempt} failures{crashes}, {job.deferrals} deferrals, cycle {job.cycle}"


def _history(job: Job, now: datetime) -> list[list[str]]:
    return [
        [
            relative(line.at, now),
            shown(line.event),
            str(line.epoch or ""),
            _took(line),
            shown(line.worker),
            shown(line.note),
        ]
        for line in job.history
    ]


def _took(line: HistoryLine) -> str:
    return span(line.at - line.started_at) if line.started_at else ""


SHOW = Command(description="Show one job with its history.", arguments=arguments, run=run)
