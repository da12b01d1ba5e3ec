"""`duly prune`: delete finished jobs before their time, by age or by what they have in common.

What was kept long enough workers delete by themselves; this is for what nobody wants to keep so long.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from duly.bulk import DELETE, Bulk, Order, Outcome, Sieve
from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.exits import Exit, UsageError
from duly.cli.filters import offer_filters, read_filters
from duly.cli.orders import counted_out, is_confirmed, offer_many, tell_preview
from duly.cli.parser import Arguments, Parser
from duly.cli.progress import Progress
from duly.cli.target import offer_store, opened
from duly.cli.watch import interval
from duly.cli.words import counted, operator
from duly.job import FINISHED

if TYPE_CHECKING:
    from duly.app import App
    from duly.bulk import Preview
    from duly.jobs import Acted


def arguments(parser: Parser) -> None:
    offer_store(parser, positional=True)
    parser.option("--older-than", type=interval, metavar="TIME", help="that ended so long ago: 90m, 12h, 7d")
    offer_filters(parser)
    offer_many(parser)
    offer_json(parser)


def run(args: Arguments) -> int:
    with opened(args) as app:
        filters, sieve = read_filters(args, app), _sieve(args, app)
        if args.where:
            raise UsageError("--where chooses rows for retry and cancel; say --task to delete its jobs")
        if not filters and sieve.is_open:
            raise UsageError("say which finished jobs to delete: --older-than 7d, or filters such as --state")
        bulk = Bulk(app.jobs, app.audit, app.clock.now)
        preview = counted_out(bulk, DELETE, filters, sieve)
        if args.dry_run:
            return tell_preview(args, preview, app)
        if not is_confirmed(DELETE, preview.count, args):
            return Exit.NO
        deleted = _delete(bulk, preview)
    answer(args, {"deleted": deleted}, f"deleted {counted(deleted, 'job')}")
    return Exit.OK


def _sieve(args: Arguments, app: App) -> Sieve:
    ended_by = app.clock.now() - args.older_than if args.older_than else None
    return Sieve(text=args.text or "", ended_by=ended_by)


def _delete(bulk: Bulk, preview: Preview) -> int:
    """Only counted: of a million ids nobody makes use, and a job that is gone has none."""
    gone = Outcome()
    with closing(Progress("deleted", preview.count)) as progress:

        def tell(acted: Acted) -> None:
            gone.note(acted)
            progress.reach(gone.changed)

        return bulk.give(Order(verb=DELETE, by=operator()), preview, tell).changed


PRUNE = Command(
    description="Delete finished jobs before their time, with their history and results.",
    epilog=(
        f"Without --state, all that are {', '.join(sorted(FINISHED))}.\n"
        "In parts, so that workers go on meanwhile; what was cut short goes on when the same is said again.\n"
        "What was kept long enough workers delete by themselves."
    ),
    arguments=arguments,
    run=run,
)
