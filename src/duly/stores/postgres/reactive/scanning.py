"""Going through a table in the order of its key, and through documents in the order of their serials."""

from __future__ import annotations

from typing import Any, Final

from duly.job import serial_of
from duly.reactive.plan import sight_of
from duly.stores.drive import Statement, Steps
from duly.stores.following.adoption import Stored
from duly.stores.following.scanning import Looked, Scanning, Ticket
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import digest
from duly.stores.postgres.reactive.capture import ADOPTION
from duly.stores.postgres.reactive.planning import append, records_of
from duly.stores.postgres.reactive.shape import SQL as ROWS
from duly.stores.postgres.reactive.shape import Shape

CHANGE = statements("change")


class Walk:
    """Keys are read, and then appended."""

    def step_rows(self, shape: Shape, ticket: Ticket, progress: dict[str, Any], limit: int) -> Steps[int]:
        yield Statement(ROWS["settings"])
        found = yield Statement(*_range(shape, "scan_rows", progress["after"], limit))
        keys = [key for (key,) in found]
        progress |= {"after": keys[-1]} if len(keys) == limit else {"phase": "documents", "after": None}
        return (yield from _note(ticket, keys, is_quiet=bool(progress["quiet"])))

    def step_documents(
        self, shape: Shape, ticket: Ticket, progress: dict[str, Any], limit: int
    ) -> Steps[int]:
        progress["quiet"] = False
        after = progress["after"]
        given = {"reaction": ticket.number, "after": after, "limit": limit}
        ((last, count),) = yield Statement(CHANGE["next"], given)
        progress |= {"after": last} if count == limit else {"phase": "over"}
        if last is None:
            return 0
        stretch = {"duly_reaction": ticket.number, "duly_after": after, "duly_last": last}
        found = yield Statement(shape.statement("scan_documents"), stretch)
        return (yield from _note(ticket, [key for (key,) in found], is_quiet=False))

    def look(self, shape: Shape, found: Stored, after: Any, limit: int) -> Steps[Looked]:
        yield Statement(ROWS["settings"])
        rows = yield Statement(*_range(shape, "look", after, limit))
        names = [digest(str(serial_of(found.reaction.task, row[0]))) for row in rows]
        records = yield from records_of(names)
        seen = [sight_of(shape.watch, row[1:][: len(shape.watch)]) for row in rows]
        known = [records.get(name) for name in names]
        return Looked(list(zip(known, seen, strict=True)), rows[-1][0] if rows else None)


def _note(ticket: Ticket, keys: list[str], *, is_quiet: bool) -> Steps[int]:
    if keys:
        yield append(ticket.source, ticket.number, dict.fromkeys(keys, is_quiet))
    return len(keys)


def _range(shape: Shape, name: str, after: str | None, limit: int) -> tuple[str, dict[str, Any]]:
    """The statement for the rows behind a key, or for the first ones: an index serves each, but not both."""
    if after is None:
        return shape.statement(name, beyond="true"), {"duly_limit": limit}
    return shape.statement(name), shape.bound(after) | {"duly_limit": limit}


SCANNING: Final = Scanning(ADOPTION, Walk())
