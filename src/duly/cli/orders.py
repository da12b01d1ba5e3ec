"""`duly retry`, `cancel` and `postpone`: orders to jobs, by id or by what they have in common."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from duly.bulk import VERBS, Bulk, Order, Preview, Sieve, Verb, meant_by
from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.documents import job_row
from duly.cli.exits import Exit, UsageError
from duly.cli.filters import offer_filters, read_filters, read_rows
from duly.cli.parser import Arguments, Parser
from duly.cli.progress import Progress
from duly.cli.redaction import Redaction
from duly.cli.tables import table
from duly.cli.target import offer_store, opened
from duly.cli.watch import interval
from duly.cli.words import clipped, counted, last_line, operator, relative, shown
from duly.job import FINISHED

if TYPE_CHECKING:
    from duly.app import App
    from duly.jobs import Acted

NO_SUCH_JOB = "no job has this id"


@dataclass(slots=True)
class Told:
    """What an order did to whom; a document of ids, since scripts go on with them."""

    changed: list[str] = field(default_factory=list[str])
    refused: dict[str, str] = field(default_factory=dict[str, str])

    def note(self, acted: Acted) -> int:
        """One more part; answers how many jobs the order has reached by now."""
        self.changed += acted.changed
        self.refused.update(acted.refused)
        return len(self.changed) + len(self.refused)


def arguments(parser: Parser, *, verb: Verb) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="jobs by id")
    if verb.name == "postpone":
        parser.option("--after", type=interval, metavar="TIME", help="ready so long from now: 10m, 1h, 1d")
        parser.option("--at", type=moment, metavar="TIME", help="ready then: 2026-11-15T02:00+01:00")
        parser.option("--now", action="store_true", default=False, help="ready at once")
    offer_store(parser)
    offer_filters(parser)
    offer_many(parser)
    offer_json(parser)


def offer_many(parser: Parser) -> None:
    """What orders to many jobs have in common."""
    parser.option("--text", help="with this text in key, arguments or error; all are looked at, which takes")
    parser.option("--dry-run", action="store_true", default=False, help="only tell who is meant")
    parser.option("-y", "--yes", action="store_true", default=False, help="do not ask before acting on many")


def moment(text: str) -> datetime:
    """A time with its zone: whose midnight would it be otherwise?"""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write it like 2026-11-15T02:00Z") from None
    if found.utcoffset() is None:
        raise argparse.ArgumentTypeError(f"{text!r} has no time zone: write it like 2026-11-15T02:00Z")
    return found


def run(verb: Verb, args: Arguments) -> int:
    with opened(args) as app:
        filters = read_filters(args, app)
        if bool(args.ids) == bool(filters or args.text):
            raise UsageError(f"say which jobs to {verb.name}: their ids, or filters such as --task, not both")
        order = Order(verb=verb, by=operator(), at=_time(verb, args, app))
        rows = read_rows(args, filters)
        if args.ids:
            return _tell(verb, args, _to_ids(order, app, args))
        if rows is not None:
            return _to_rows(order, app, rows, args)
        return _to_matching(order, app, filters, args)


def _time(verb: Verb, args: Arguments, app: App) -> datetime | None:
    """When postponed jobs become ready; None is at once."""
    if verb.name != "postpone":
        return None
    if sum(map(bool, (args.after, args.at, args.now))) != 1:
        raise UsageError("say when they are to be ready: --after 10m, --at TIME or --now")
    at: datetime | None = app.clock.now() + args.after if args.after else args.at
    return at


# whom


def _to_ids(order: Order, app: App, args: Arguments) -> Told:
    if args.dry_run:
        raise UsageError("--dry-run tells whom filters mean; ids tell it themselves")
    told = Told()
    told.note(order.give(app.jobs, args.ids, {}))
    known = {*told.changed, *told.refused}
    told.refused = {one: NO_SUCH_JOB for one in args.ids if one not in known} | told.refused
    return told


def _to_matching(order: Order, app: App, filters: Mapping[str, Any], args: Arguments) -> int:
    bulk = Bulk(app.jobs, app.audit, app.clock.now)
    preview = counted_out(bulk, order.verb, filters, Sieve(text=args.text or ""))
    if args.dry_run:
        return tell_preview(args, preview, app)
    if not is_confirmed(order.verb, preview.count, args):
        return Exit.NO
    told = Told()
    with closing(Progress(order.verb.past, preview.count)) as progress:
        bulk.give(order, preview, lambda acted: progress.reach(told.note(acted)))
    return _tell(order.verb, args, told)


def counted_out(bulk: Bulk, verb: Verb, filters: Mapping[str, Any], sieve: Sieve) -> Preview:
    """Whom an order would reach, to the last one; counting can take long, and tells how far it is."""
    with closing(Progress("found")) as progress:
        return bulk.preview(verb, filters, sieve, tell=progress.reach)


def _to_rows(order: Order, app: App, rows: Mapping[str, Any], args: Arguments) -> int:
    """Rows of a reactive task. Retried, they are planned anew: one that changed runs for what it is now."""
    meant = meant_by(order.verb, rows)
    if order.verb.name == "postpone" or args.dry_run or args.text:
        raise UsageError("--where chooses rows for retry and cancel, without --dry-run or --text")
    if not is_confirmed(order.verb, app.reactions.count(**meant), args):
        return Exit.NO
    if order.verb.name == "cancel":
        acted = app.reactions.cancel(by=order.by, **meant)
        return _tell(order.verb, args, Told(acted.changed, acted.refused))
    ids = [job.id for job in app.reactions.jobs(**meant)]
    app.reactions.retry(by=order.by, **meant)
    return _tell(order.verb, args, Told(ids))


def is_confirmed(verb: Verb, count: int, args: Arguments) -> bool:
    """Whether somebody said yes to this number."""
    if args.yes or not count:
        return True
    question = f"{verb.name} {counted(count, 'job')}?"
    if args.json or not sys.stdin.isatty():
        raise UsageError(f"{question} Say --yes to go on without being asked, --dry-run to see them")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# telling


def _tell(verb: Verb, args: Arguments, told: Told) -> int:
    document = {"changed": told.changed, "refused": told.refused}
    answer(args, document, _text(verb, told.changed, told.refused))
    return Exit.OK if not told.refused else Exit.NO


def _text(verb: Verb, changed: Sequence[str], refused: Mapping[str, str]) -> str:
    lines = [f"{verb.past} {counted(len(changed), 'job')}"]
    lines += [f"{job_id}: not {verb.past}: {shown(reason)}" for job_id, reason in refused.items()]
    return "\n".join(lines)


def tell_preview(args: Arguments, preview: Preview, app: App) -> int:
    """What --dry-run answers."""
    preview = replace(preview, sample=Redaction(app).jobs(preview.sample))
    answer(args, _preview_document(preview), _preview_text(preview, app.clock.now()))
    return Exit.OK


def _preview_document(preview: Preview) -> dict[str, Any]:
    return {
        "order": preview.verb.name,
        "count": preview.count,
        "sample": [job_row(job) for job in preview.sample],
    }


def _preview_text(preview: Preview, now: datetime) -> str:
    head = f"would {preview.verb.name} {counted(preview.count, 'job')}"
    if not preview.sample:
        return head
    rows = [
        [
            job.id,
            shown(job.task),
            shown(job.key or "-"),
            str(job.state),
            relative(job.finished_at or job.ready_at, now),
            clipped(last_line(job.error), 60),
        ]
        for job in preview.sample
    ]
    first = "" if preview.count <= len(rows) else f"; the newest {len(rows)}:"
    return f"{head}{first}\n\n{table(['id', 'task', 'key', 'state', 'since or due', 'error'], rows)}"


def _command(verb: str, description: str, epilog: str = "") -> Command:
    return Command(
        description=description,
        epilog=epilog,
        arguments=partial(arguments, verb=VERBS[verb]),
        run=partial(run, VERBS[verb]),
    )


RETRY = _command(
    "retry",
    "Run finished jobs once more: a new generation with fresh budgets.",
    f"With filters, failed jobs unless --state says otherwise ({', '.join(sorted(FINISHED))}).",
)
CANCEL = _command("cancel", "Cancel waiting jobs; ask running ones to stop.")
POSTPONE = _command("postpone", "Make waiting jobs ready at another time: later, or at once with --now.")
