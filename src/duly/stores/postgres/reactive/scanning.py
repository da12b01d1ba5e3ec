"""scan: a look at every row, in steps that each remember how far they came.

Triggers are there before the first step, and a step only appends keys as they do: a row that changes
meanwhile is planned by its newest state, whoever comes first.
"""

from __future__ import annotations

import json
from typing import Any, Final

from duly.job import serial_of
from duly.reactive.plan import Sight, decide, sight_of
from duly.reactive.reaction import Reaction
from duly.stores.changes import Impossible
from duly.stores.drive import Statement, Steps
from duly.stores.following.adoption import scan_text
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World, digest
from duly.stores.postgres.reactive.capture import ADOPTION, REACTION, shape_of
from duly.stores.postgres.reactive.planning import append, records_of
from duly.stores.postgres.reactive.shape import SQL as ROWS
from duly.stores.postgres.reactive.shape import Shape

CHANGE = statements("change")

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
    yield Statement(ROWS["settings"])
    try:
        shape = yield from shape_of(Reaction.read(definition))
    except Impossible as error:
        yield from ADOPTION.park(number, str(error))
        return 0
    progress: dict[str, Any] = json.loads(text)
    step = _rows if progress["phase"] == "rows" else _documents
    keys = yield from step(shape, number, progress, limit)
    if keys:
        yield append(source, number, dict.fromkeys(keys, bool(progress["quiet"])))
    is_over = progress["phase"] == "over"
    written = {"number": number, "scan": None if is_over else json.dumps(progress), "scanned": len(keys)}
    yield Statement(REACTION["advance"], written)
    if is_over:
        yield Statement(REACTION["end_scan"], {"number": number, "now": world.now})
    return len(keys)


def _rows(shape: Shape, _: int, progress: dict[str, Any], limit: int) -> Steps[list[str]]:
    found = yield Statement(*_range(shape, "scan_rows", progress["after"], limit))
    keys = [key for (key,) in found]
    progress |= {"after": keys[-1]} if len(keys) == limit else {"phase": "documents", "after": None}
    return keys


def _range(shape: Shape, name: str, after: str | None, limit: int) -> tuple[str, dict[str, Any]]:
    """The statement for the rows behind a key, or for the first ones: an index serves each, but not both."""
    if after is None:
        return shape.statement(name, beyond="true"), {"duly_limit": limit}
    return shape.statement(name), shape.bound(after) | {"duly_limit": limit}


def _documents(shape: Shape, number: int, progress: dict[str, Any], limit: int) -> Steps[list[str]]:
    progress["quiet"] = False
    given = {"reaction": number, "after": progress["after"], "limit": limit}
    ((last, count),) = yield Statement(CHANGE["next"], given)
    keys: list[str] = []
    if last is not None:
        stretch = {"duly_reaction": number, "duly_after": progress["after"], "duly_last": last}
        found = yield Statement(shape.statement("scan_documents"), stretch)
        keys = [key for (key,) in found]
    progress |= {"after": last} if count == limit else {"phase": "over"}
    return keys


def foretell(world: World, task: str) -> Steps[int]:
    """How many rows a scan would run now, counted in batches."""
    found = yield from ADOPTION.stored(task)
    if found is None:
        return 0
    reaction, runs, after = found.reaction, 0, None
    shape = yield from shape_of(reaction)
    yield Statement(ROWS["settings"])
    while True:
        rows = yield Statement(*_range(shape, "look", after, BATCH))
        names = [digest(str(serial_of(task, row[0]))) for row in rows]
        records = yield from records_of(names)
        for name, row in zip(names, rows, strict=True):
            sight = Sight(matches=True, seen=sight_of(shape.watch, row[1:][: len(shape.watch)]))
            runs += decide(records.get(name), sight, reaction, world.moment.instant).run is not None
        if len(rows) < BATCH:
            return runs
        after = rows[-1][0]
