"""`duly jobs`: list jobs, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.documents import job_row
from duly.cli.exits import Exit
from duly.cli.filters import count_meant, is_internal, names_lane, offer_filters, read_filters, read_rows
from duly.cli.parser import Arguments, Parser, at_least_one
from duly.cli.redaction import Redaction
from duly.cli.tables import table
from duly.cli.target import offer_store, opened
from duly.cli.words import counted, last_line, relative, shown
from duly.job import Job, State

if TYPE_CHECKING:
    from duly.app import App


def arguments(parser: Parser) -> None:
    offer_store(parser, positional=True)
    offer_filters(parser)
    parser.option("--text", help="with this text in key, arguments or error; the newest 20,000 are looked at")
    parser.option("-n", "--limit", type=at_least_one, default=20, help="at most so many (20)")
    parser.option("--before", type=at_least_one, help="go on from this generation: see `next` in --json")
    parser.option(
        "--all", action="store_true", default=False, help="also the engine's own, such as schedules"
    )
    offer_json(parser)


def run(args: Arguments) -> int:
    with opened(args) as app:
        filters = read_filters(args, app)
        if (rows := read_rows(args, filters)) is not None:
            return _run_rows(app, rows, args)
        if args.text is not None:
            return _run_text(app, filters, args)
        found = app.jobs.list(limit=args.limit, before=args.before, **filters)
        is_complete = args.all or names_lane(filters)
        jobs = Redaction(app).jobs(job for job in found if is_complete or not is_internal(job))
        total = app.jobs.count(**filters) if is_complete else count_meant(app, filters)
        now = app.clock.now()
    following = found[-1].generation if len(found) == args.limit else None
    document = {"jobs": [job_row(job) for job in jobs], "matching": total, "next": following}
    answer(args, document, listing(jobs, now) + _more(following, total))
    return Exit.OK


def _run_text(app: App, filters: dict[str, Any], args: Arguments) -> int:
    """How many there are nobody knows: only so many are looked at."""
    found = app.jobs.search(args.text, limit=args.limit, before=args.before, **filters)
    is_complete = args.all or names_lane(filters)
    jobs = Redaction(app).jobs(job for job in found.jobs if is_complete or not is_internal(job))
    document = {"jobs": [job_row(job) for job in jobs], "matching": None, "next": found.next}
    more = "" if found.next is None else f"\n(--before {found.next} looks further back)"
    answer(args, document, listing(jobs, app.clock.now()) + more)
    return Exit.OK


def _run_rows(app: App, rows: dict[str, Any], args: Arguments) -> int:
    """The last job of each row that a condition is true of."""
    found = app.reactions.jobs(**rows)
    older = [job for job in found if args.before is None or job.generation < args.before]
    jobs = Redaction(app).jobs(older[: args.limit])
    following = jobs[-1].generation if len(jobs) == args.limit else None
    document = {"jobs": [job_row(job) for job in jobs], "matching": len(found), "next": following}
    answer(args, document, listing(jobs, app.clock.now()) + _more(following, len(found)))
    return Exit.OK


def listing(jobs: Sequence[Job], now: datetime) -> str:
    """Jobs as a table."""
    if not jobs:
        return "no jobs"
    rows = [
        [
            job.id,
            shown(job.task),
            shown(job.key or "-"),
            str(job.state),
            str(job.attempt),
            when(job, now),
            last_line(job.error) if job.state is not State.DONE else "",
        ]
        for job in jobs
    ]
    return table(["id", "task", "key", "state", "failures", "when", "error"], rows)


def when(job: Job, now: datetime) -> str:
    """The moment that matters in the state it is in."""
    match job.state:
        case State.WAITING:
            return f"due {relative(job.ready_at, now)}"
        case State.RUNNING:
            return f"lease ends {relative(job.ready_at, now)}"
        case _:
            return relative(job.finished_at, now)


def _more(following: int | None, total: int) -> str:
    return "" if following is None else f"\n({counted(total, 'job')} in all; --limit shows more)"


JOBS = Command(description="List jobs, newest first.", arguments=arguments, run=run)
