"""Going through a table in the order of its key, and through documents in the order of theirs."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from duly import codec
from duly.reactive.plan import sight_of
from duly.stores.changes import Impossible
from duly.stores.drive import Statement, Steps, Trial
from duly.stores.following.adoption import Stored
from duly.stores.following.scanning import Looked, Scanning, Ticket
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.reactive.capture import ADOPTION
from duly.stores.sqlite.reactive.planning import records_of
from duly.stores.sqlite.reactive.shape import Shape, key_text

CHANGE = statements("change")
DOCUMENT = statements("document")


class Walk:
    """Keys are appended by the statement that finds them."""

    def step_rows(self, shape: Shape, ticket: Ticket, progress: dict[str, Any], limit: int) -> Steps[int]:
        after = None if progress["after"] is None else codec.unpack_value(progress["after"])
        about = _about(ticket) | {"our_quiet": int(progress["quiet"])}
        rows = yield Trial(*_range(shape, "scan_rows", after, limit, about))
        if len(rows) == limit:
            ((*parts,),) = yield Statement(CHANGE["newest"])
            progress["after"] = codec.pack_value(parts[: len(shape.key)])
        else:
            progress |= {"phase": "documents", "after": None}
        return len(rows)

    def step_documents(
        self, shape: Shape, ticket: Ticket, progress: dict[str, Any], limit: int
    ) -> Steps[int]:
        after = progress["after"]
        given = {"reaction": ticket.number, "limit": limit, "after": after}
        ((last, count),) = yield Statement(DOCUMENT["first" if after is None else "next"], given)
        progress |= {"after": last} if count == limit else {"phase": "over"}
        if last is None:
            return 0
        beyond = "true" if after is None else "duly_document.key > :our_after"
        stretch = {"our_after": after, "our_last": last}
        return len((yield Trial(shape.statement("scan_documents", beyond=beyond), _about(ticket) | stretch)))

    def look(self, shape: Shape, found: Stored, after: Any, limit: int) -> Steps[Looked]:
        width = len(shape.key)
        rows = yield Statement(*_range(shape, "look", after, limit, {}))
        keys = [key_text(row[:width]) for row in rows]
        records = yield from records_of(found.number, keys)
        seen = [sight_of(shape.watch, row[width:][: len(shape.watch)]) for row in rows]
        known = [records.get(key) for key in keys]
        return Looked(list(zip(known, seen, strict=True)), rows[-1][:width] if rows else None)


def _about(ticket: Ticket) -> dict[str, Any]:
    return {"our_source": ticket.source, "our_reaction": ticket.number}


def _range(
    shape: Shape, name: str, after: Sequence[Any] | None, limit: int, about: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The statement for the rows behind a key, or for the first ones: an index serves each, but not both."""
    given = about | {"our_limit": limit}
    if after is None:
        return shape.statement(name, beyond="true"), given
    return shape.statement(name), given | shape.bound(after)


SCANNING: Final = Scanning(ADOPTION, Walk(), (Impossible, sqlite3.OperationalError))
