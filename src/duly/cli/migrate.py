"""`duly migrate`: bring the store's schema up to this version, also where that takes something away."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.exits import Exit
from duly.cli.parser import Arguments, Parser
from duly.cli.target import chosen, offer_store
from duly.stores import open_store
from duly.urls import masked


@runtime_checkable
class Migrating(Protocol):
    """A store that keeps a schema."""

    def pending(self) -> list[str]: ...
    def migrate(self) -> list[str]: ...


def arguments(parser: Parser) -> None:
    offer_store(parser, positional=True)
    parser.option(
        "--check", action="store_true", default=False, help="change nothing; exit 1 if something is pending"
    )
    offer_json(parser)


def run(args: Arguments) -> int:
    app = chosen(args)
    url = masked(app.settings.url)
    store = open_store(app.settings, app.clock)
    if not isinstance(store, Migrating):
        answer(args, {"url": url, "pending": [], "applied": []}, f"{url} keeps no schema: nothing to do")
        return Exit.OK
    pending = store.pending()
    if args.check:
        text = "\n".join(f"pending: {title}" for title in pending) or "up to date"
        answer(args, {"url": url, "pending": pending, "applied": []}, f"{url}\n{text}")
        return Exit.NO if pending else Exit.OK
    try:
        store.open()  # what only adds is applied by every opening
        store.migrate()
        left = store.pending()
    finally:
        store.close()
    applied = [title for title in pending if title not in left]
    text = "\n".join(f"applied: {title}" for title in applied) or "up to date"
    answer(args, {"url": url, "pending": left, "applied": applied}, f"{url}\n{text}")
    return Exit.OK


MIGRATE = Command(
    description="Apply every pending migration, those that take something away included.",
    epilog="Those that only add are applied by every start. Run this once no process runs older code.",
    arguments=arguments,
    run=run,
)
