"""`duly reconcile`: have every row of followed tables looked at, or tell what that would run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.exits import Exit
from duly.cli.parser import Arguments, Parser
from duly.cli.progress import Progress
from duly.cli.tables import table
from duly.cli.target import offer_store, opened
from duly.cli.words import counted, operator, relative, shown, stamp
from duly.errors import UnknownTask

if TYPE_CHECKING:
    from duly.app import App
    from duly.reactions import ReactionView

SAY_EVERY = 0.2


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "task", nargs="?", metavar="TASK", help="a reactive task; all of them if none is named"
    )
    offer_store(parser)
    parser.option(
        "--dry-run", action="store_true", default=False, help="change nothing; tell how many rows would run"
    )
    parser.option(
        "--wait", action="store_true", default=False, help="tell of the progress until workers have done it"
    )
    offer_json(parser)


def run(args: Arguments) -> int:
    with opened(args) as app:
        views = _chosen(app, args.task)
        if args.dry_run:
            runs = {view.task: app.reactions.foretell(view.task) for view in views}
            lines = [f"{shown(task)}: {counted(number, 'row')} would run" for task, number in runs.items()]
            answer(args, {"would_run": runs}, "\n".join(lines) or "no reactive tasks")
            return Exit.OK
        for view in views:
            app.reactions.reconcile(view.task, by=operator())
        if args.wait:
            _watch(app, {view.task for view in views})
        views = _chosen(app, args.task)
        answer(
            args,
            {"reactions": [reaction_row(view) for view in views]},
            reaction_table(views, app.clock.now()),
        )
        return Exit.OK


def _chosen(app: App, task: str | None) -> list[ReactionView]:
    views = app.reactions.list()
    known = [view.task for view in views]
    if task is not None and task not in known:
        raise UnknownTask(task, known)
    return [view for view in views if task in (None, view.task)]


def _watch(app: App, tasks: Iterable[str]) -> None:
    """How many rows were looked at, until nothing is left to look at. Nobody knows how many there are."""
    progress = Progress("looked at")
    try:
        while going := [view for view in app.reactions.list() if view.task in tasks and view.is_reconciling]:
            progress.reach(sum(view.reconciled for view in going))
            time.sleep(SAY_EVERY)
    finally:
        progress.close()


def reaction_row(view: ReactionView) -> dict[str, Any]:
    """The keys of a reactive task in `--json`."""
    return {
        "task": view.task,
        "table": view.table,
        "state": view.state,
        "note": view.note,
        "matched": view.matched,
        "pending": view.pending,
        "skipped": view.skipped,
        "is_reconciling": view.is_reconciling,
        "reconciled": view.reconciled,
        "reconciled_at": stamp(view.reconciled_at),
    }


def reaction_table(views: Sequence[ReactionView], now: datetime) -> str:
    """How reactive tasks stand."""
    if not views:
        return "no reactive tasks"
    rows = [
        [
            shown(view.task),
            shown(view.table),
            shown(view.state),
            str(view.matched),
            str(view.pending),
            f"{view.reconciled} so far" if view.is_reconciling else relative(view.reconciled_at, now) or "-",
            shown(view.note),
        ]
        for view in views
    ]
    return table(["task", "table", "state", "matched", "pending", "reconciled", "note"], rows)


RECONCILE = Command(
    description="Have workers look at every row of the tables that reactive tasks follow.",
    epilog="Workers do it in steps, and go on where others stopped. A row whose values were dealt with runs "
    "nothing; one whose last run failed runs again.",
    arguments=arguments,
    run=run,
)
