"""`duly audit`: who gave which order, newest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from duly.audit import Deed
from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.exits import Exit
from duly.cli.parser import Arguments, Parser, at_least_one
from duly.cli.tables import table
from duly.cli.target import offer_store, opened
from duly.cli.words import relative, shown, stamp


def arguments(parser: Parser) -> None:
    offer_store(parser, positional=True)
    parser.option("-n", "--limit", type=at_least_one, default=20, help="at most so many (20)")
    parser.option("--before", type=at_least_one, help="go on from this number: see `next` in --json")
    offer_json(parser)


def run(args: Arguments) -> int:
    with opened(args) as app:
        deeds = app.audit.list(limit=args.limit, before=args.before)
        now = app.clock.now()
    following = deeds[-1].number if len(deeds) == args.limit else None
    document = {"orders": [row_of(deed) for deed in deeds], "next": following}
    answer(args, document, _listing(deeds, now))
    return Exit.OK


def row_of(deed: Deed) -> dict[str, Any]:
    """An order as documents carry it."""
    return {
        "number": deed.number,
        "at": stamp(deed.at),
        "by": deed.by,
        "order": deed.order,
        "about": dict(deed.about),
        "changed": deed.changed,
        "refused": deed.refused,
        "is_complete": deed.is_complete,
    }


def _listing(deeds: Sequence[Deed], now: datetime) -> str:
    if not deeds:
        return "no orders"
    rows = [
        [
            relative(deed.at, now),
            shown(deed.by),
            shown(deed.order),
            f"{deed.changed:,}",
            f"{deed.refused:,}" if deed.is_complete else "unfinished",
            shown(about_text(deed.about)),
        ]
        for deed in deeds
    ]
    return table(["when", "by", "order", "changed", "refused", "about"], rows)


def about_text(about: Mapping[str, Any]) -> str:
    """`task shop.mail, state failed`."""
    return ", ".join(f"{name} {_plain(value)}" for name, value in about.items() if value not in ("", None))


def _plain(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]


AUDIT = Command(
    description="Who gave which order, newest first; 90 days are kept.", arguments=arguments, run=run
)
