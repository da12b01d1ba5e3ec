"""`duly failures`: what goes wrong, by cause."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.exits import Exit
from duly.cli.parser import Arguments, Parser, at_least_one
from duly.cli.redaction import Redaction
from duly.cli.tables import table
from duly.cli.target import offer_store, opened
from duly.cli.words import relative, shown, stamp
from duly.fingerprints import headline
from duly.stores.reports import COUNTED, FailureGroup


def arguments(parser: Parser) -> None:
    offer_store(parser, positional=True)
    parser.option("-n", "--limit", type=at_least_one, default=20, help="at most so many (20)")
    offer_json(parser)


def run(args: Arguments) -> int:
    with opened(args) as app:
        groups = Redaction(app).groups(app.failures.list(limit=args.limit))
        now = app.clock.now()
    answer(args, {"failures": [row_of(group) for group in groups]}, _listing(groups, now))
    return Exit.OK


def row_of(group: FailureGroup) -> dict[str, Any]:
    """A group as documents carry it."""
    return {
        "fingerprint": group.fingerprint,
        "count": group.count,
        "is_more": group.count == COUNTED,
        "first_seen": stamp(group.first_seen),
        "last_seen": stamp(group.last_seen),
        "tasks": list(group.tasks),
        "sample": group.sample.id,
        "error": headline(group.sample.error or ""),
    }


def _listing(groups: Sequence[FailureGroup], now: datetime) -> str:
    if not groups:
        return "no failures"
    rows = [
        [
            group.fingerprint,
            f"{group.count:,}{'+' if group.count == COUNTED else ''}",
            relative(group.last_seen, now),
            relative(group.first_seen, now),
            shown(", ".join(group.tasks)),
            group.sample.id,
            shown(headline(group.sample.error or "")),
        ]
        for group in groups
    ]
    return table(["fingerprint", "jobs", "last", "first", "tasks", "newest job", "error"], rows)


FAILURES = Command(
    description="Jobs that failed, or will be tried again after a failure, by the cause they have in common.",
    epilog="`duly jobs --fingerprint NAME` lists the jobs of one; retry and cancel take it too.",
    arguments=arguments,
    run=run,
)
