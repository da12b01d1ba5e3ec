"""`duly migrate`: bring the store's schema up to this version, also where that takes something away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from duly.cli.answer import answer, offer_json
from duly.cli.commands import Command
from duly.cli.exits import Exit
from duly.cli.parser import Arguments, Parser
from duly.cli.target import chosen, offer_store
from duly.outbox import open_outbox
from duly.stores import open_store
from duly.stores.changes import Changes
from duly.urls import masked

if TYPE_CHECKING:
    from duly.app import App


@runtime_checkable
class Migrating(Protocol):
    """A store, or an outbox, that keeps a schema."""

    def open(self) -> None: ...
    def close(self) -> None: ...
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
    schemas = _schemas(app)
    if not schemas:
        answer(args, {"url": url, "pending": [], "applied": []}, f"{url} keeps no schema: nothing to do")
        return Exit.OK
    pending = _pending(schemas)
    if args.check:
        text = "\n".join(f"pending: {title}" for title in pending) or "up to date"
        answer(args, {"url": url, "pending": pending, "applied": []}, f"{url}\n{text}")
        return Exit.NO if pending else Exit.OK
    for schema in schemas.values():
        _migrate(schema)
    left = _pending(schemas)
    applied = [title for title in pending if title not in left]
    text = "\n".join(f"applied: {title}" for title in applied) or "up to date"
    answer(args, {"url": url, "pending": left, "applied": applied}, f"{url}\n{text}")
    return Exit.OK


def _schemas(app: App) -> dict[str, Migrating]:
    """What there is to migrate, and what to write before the titles of its steps."""
    found = {"": open_store(app.settings, app.clock), "outbox ": open_outbox(app.settings, app.clock)}
    return {label: schema for label, schema in found.items() if isinstance(schema, Migrating)}


def _pending(schemas: Mapping[str, Migrating]) -> list[str]:
    return [f"{label}{title}" for label, schema in schemas.items() for title in schema.pending()]


def _migrate(schema: Migrating) -> None:
    try:
        schema.open()  # what only adds is applied by every opening
        schema.migrate()
        if isinstance(schema, Changes):
            _look_after_triggers(schema)
    finally:
        schema.close()


def _look_after_triggers(store: Changes) -> None:
    """A migration of the user's own may have taken some away; the next worker need not find out."""
    for standing in store.run(store.standings()):
        store.run(store.tend(standing.reaction.task))


MIGRATE = Command(
    description="Apply every pending migration, those that take something away included.",
    epilog="Those that only add are applied by every start. Run this once no process runs older code.",
    arguments=arguments,
    run=run,
)
