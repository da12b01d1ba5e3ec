"""scan: a look at every row, in steps that each remember how far they came.

Triggers are there before the first step, and a step only appends keys as they do: a row that changes
meanwhile is planned by its newest state, whoever comes first.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from duly import codec
from duly.reactive.plan import Sight, decide, sight_of
from duly.reactive.reaction import Reaction
from duly.stores.changes import Impossible
from duly.stores.drive import Statement, Steps, Trial
from duly.stores.following.adoption import scan_text
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.sqlite.reactive.capture import ADOPTION, REACTION, shape_of
from duly.stores.sqlite.reactive.planning import records_of
from duly.stores.sqlite.reactive.shape import Shape, key_text

CHANGE = statements("change")
DOCUMENT = statements("document")

BATCH: Final = 1000


def reconcile(task: str) -> Steps[None]:
    """Look at every row of a task from the beginning."""
    found = yield from ADOPTION.stored(task)
    if found is not None:
        yield Statement(REACTION["look_again"], {"number": found.number, "scan": scan_text()})


def scan(world: World, limit: int) -> Steps[int | None]:
    """The next step of the first scan there is: matching rows, then documents that match no longer."""
    found = yield Statement(REACTION["scans"])
    if not found:
        return None
    ((number, source, definition, text),) = found
    progress = json.loads(text)
    about = {"our_source": source, "our_reaction": number, "our_quiet": int(progress["quiet"])}
    step = _step_rows if progress["phase"] == "rows" else _step_documents
    try:
        shape = yield from shape_of(Reaction.read(definition))
        noted = yield from step(shape, about, progress, limit)
    except (Impossible, sqlite3.OperationalError) as error:
        yield from ADOPTION.park(number, str(error))
        return 0
    is_over = progress["phase"] == "over"
    written = {"number": number, "scan": None if is_over else json.dumps(progress), "scanned": noted}
    yield Statement(REACTION["advance"], written)
    if is_over:
        yield Statement(REACTION["end_scan"], {"number": number, "now": world.now})
    return noted


def _step_rows(shape: Shape, about: dict[str, Any], progress: dict[str, Any], limit: int) -> Steps[int]:
    after = None if progress["after"] is None else codec.unpack_value(progress["after"])
    rows = yield Trial(*_range(shape, "scan_rows", after, limit, about))
    if len(rows) == limit:
        ((*parts,),) = yield Statement(CHANGE["newest"])
        progress["after"] = codec.pack_value(parts[: len(shape.key)])
    else:
        progress |= {"phase": "documents", "after": None}
    return len(rows)


def _step_documents(shape: Shape, about: dict[str, Any], progress: dict[str, Any], limit: int) -> Steps[int]:
    after = progress["after"]
    given = {"reaction": about["our_reaction"], "limit": limit, "after": after}
    ((last, count),) = yield Statement(DOCUMENT["first" if after is None else "next"], given)
    if last is not None:
        beyond = "true" if after is None else "duly_document.key > :our_after"
        stretch = {"our_after": after, "our_last": last}
        yield Trial(shape.statement("scan_documents", beyond=beyond), about | stretch)
    progress |= {"after": last} if count == limit else {"phase": "over"}
    return 0


def _range(
    shape: Shape, name: str, after: Sequence[Any] | None, limit: int, about: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The statement for the rows behind a key, or for the first ones: an index serves each, but not both."""
    given = about | {"our_limit": limit}
    if after is None:
        return shape.statement(name, beyond="true"), given
    return shape.statement(name), given | shape.bound(after)


def foretell(world: World, task: str) -> Steps[int]:
    """How many rows a scan would run now, counted in batches."""
    found = yield from ADOPTION.stored(task)
    if found is None:
        return 0
    reaction, runs, after = found.reaction, 0, None
    shape = yield from shape_of(reaction)
    while True:
        rows = yield Statement(*_range(shape, "look", after, BATCH, {}))
        keys = [key_text(row[: len(shape.key)]) for row in rows]
        records = yield from records_of(found.number, keys)
        for key, row in zip(keys, rows, strict=True):
            sight = Sight(matches=True, seen=sight_of(shape.watch, row[len(shape.key) :][: len(shape.watch)]))
            runs += decide(records.get(key), sight, reaction, world.moment.instant).run is not None
        if len(rows) < BATCH:
            return runs
        after = rows[-1][: len(shape.key)]
