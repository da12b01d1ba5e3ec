"""`duly import`: what another system keeps in its tables, as code for this one. It writes nowhere."""

from __future__ import annotations

import sys
from typing import Any

from duly.cli.answer import answer, offer_json
from duly.cli.beat.code import AppStyle, DjangoStyle, written
from duly.cli.beat.entries import Entry, understood
from duly.cli.beat.rows import read_rows
from duly.cli.commands import Command
from duly.cli.exits import Exit
from duly.cli.parser import Arguments, Parser
from duly.cli.words import counted
from duly.clock import SystemClock
from duly.urls import masked


def arguments(parser: Parser) -> None:
    parser.add_argument("what", choices=["celery-beat"], metavar="celery-beat", help="whose tables")
    parser.add_argument(
        "source", metavar="URL", help="Django's database: postgresql://… or sqlite:///file.db"
    )
    parser.option(
        "-a", "--app", metavar="MODULE:OBJECT", help="write for this application instead of Django's tasks"
    )
    offer_json(parser)


def run(args: Arguments) -> int:
    now = SystemClock().now()
    found = [entry for row in read_rows(args.source) if (entry := understood(row, now)) is not None]
    style = AppStyle(args.app) if args.app else DjangoStyle()
    answer(args, {"entries": [_document(entry) for entry in found]}, _code(found, style, args.source))
    if not args.json:
        print(_summary(found), file=sys.stderr)
    return Exit.OK


def _code(found: list[Entry], style: AppStyle | DjangoStyle, source: str) -> str:
    return written(found, style, masked(source)).rstrip("\n")


def _document(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "task": entry.task,
        "kind": entry.kind,
        **entry.words,
        "args": entry.args,
        "kwargs": entry.kwargs,
        "queue": entry.queue,
        "notes": list(entry.notes),
    }


def _summary(found: list[Entry]) -> str:
    kinds = [entry.kind for entry in found]
    return (
        f"{counted(kinds.count('schedule'), 'schedule')}, {counted(kinds.count('once'), 'single run')}, "
        f"{kinds.count('disabled')} disabled, {kinds.count('by hand')} left for a person"
    )


IMPORT = Command(
    description="Print the schedules of another system as code; nothing is written to any database.",
    epilog=(
        "Disabled rows are printed as comments, single runs as a function to call once.\n"
        "What cannot be said in Duly is named in a comment, with the reason."
    ),
    arguments=arguments,
    run=run,
)
