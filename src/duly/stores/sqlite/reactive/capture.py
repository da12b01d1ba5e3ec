"""Triggers on the user's table: what they need, whether they are there, and putting them there.

SQLite has no way to catch an error inside a trigger. So ours name nothing but the key's columns, which SQLite
itself renames along and does not let anybody drop, and a table of the engine's own.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import defaultdict
from typing import Final

from duly.reactive.reaction import Reaction
from duly.stores.changes import Anatomy, Column, Impossible, bad_where, no_table
from duly.stores.drive import Statement, Steps, Trial
from duly.stores.following.adoption import Adoption, Now
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.reactive.shape import SQL, Shape, filled, literal

REACTION = statements("reaction")

EVENTS: Final = ("insert", "update", "rekey", "delete")
CLOCKS: Final = frozenset({"date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff"})
_NOW: Final = re.compile(
    r"[(,]\s*'now'|\b(?:date|time|datetime|julianday|unixepoch)\s*\(\s*\)", re.IGNORECASE
)


def shape_of(reaction: Reaction) -> Steps[Shape]:
    """The table as it is now; raises Impossible when it cannot be followed as declared."""
    if reaction.table.schema not in (None, "main"):
        raise Impossible(
            f"Table {reaction.table} is in another database than main: only tables of the store's own file "
            "can be followed."
        )
    found = yield Statement(SQL["table"], {"name": reaction.table.name})
    if not found:
        raise no_table(reaction)
    ((name, text),) = found
    if re.match(r"\s*create\s+virtual", text, re.IGNORECASE):
        raise Impossible(f"Table {reaction.table} is a virtual one, which has no triggers.")
    return Shape.of(reaction, (yield from _anatomy(name)), name)


def _anatomy(name: str) -> Steps[Anatomy]:
    columns = yield Statement(SQL["columns"], {"name": name})
    indexes: dict[str, set[str]] = defaultdict(set)
    for index, column in (yield Statement(SQL["unique"], {"name": name})):
        indexes[index].add(column)
    primary = tuple(column for column, _, place in sorted(columns, key=lambda row: row[2]) if place)
    unique = [frozenset(names) for names in indexes.values()]
    return Anatomy(
        columns={column: Column(column, kind) for column, kind, _ in columns},
        primary_key=primary,
        unique=(*unique, frozenset(primary)) if primary else tuple(unique),
    )


# --- the condition --------------------------------------------------------------------------------


def check_where(shape: Shape) -> Steps[None]:
    """Ask SQLite whether the condition speaks of the row alone, as it must in a partial index."""
    reaction = shape.reaction
    if reaction.where is None:
        return
    try:
        plan = yield Trial(shape.statement("explain"))
        yield Statement(shape.statement("probe_table"))
        yield Trial(shape.statement("probe_where"))
    except sqlite3.Error as error:
        yield Statement(shape.statement("drop_probe"))
        raise bad_where(reaction, str(error)) from None
    yield Statement(shape.statement("drop_probe"))
    called = {str(row[5]).partition("(")[0] for row in plan if row[1] in ("Function", "PureFunc")}
    if any(name.startswith("current_") for name in called) or (
        called & CLOCKS and _NOW.search(reaction.where)
    ):
        raise bad_where(reaction, "it asks for the current time")


# --- triggers -------------------------------------------------------------------------------------


def source_of(world: Now, shape: Shape) -> Steps[tuple[int, bool]]:
    """The number of the table with this key, with its triggers in place; and whether these had vanished."""
    named = {"name": shape.table, "key": json.dumps(shape.key)}
    found = yield Statement(REACTION["source"], named)
    installed_at = found[0][1] if found else None
    number = found[0][0] if found else (yield Statement(REACTION["add_source"], named))[0][0]
    if (yield from _is_installed(shape, number)):
        return number, False
    yield from release(number)
    for event in EVENTS:
        yield Statement(_trigger(shape, number, event))
    yield Statement(REACTION["installed"], {"number": number, "now": world.now})
    return number, installed_at is not None


def _trigger(shape: Shape, number: int, event: str) -> str:
    return shape.statement(f"capture_{event}", source=str(number))


def _is_installed(shape: Shape, number: int) -> Steps[bool]:
    """Compared as texts in a statement, so that both are spelled for the same namespace."""
    texts = ", ".join(literal(_trigger(shape, number, event)) for event in EVENTS)
    return len((yield Statement(filled(SQL["installed"], texts=texts)))) == len(EVENTS)


def release(number: int) -> Steps[None]:
    """Take the triggers away."""
    for event in EVENTS:
        yield Statement(filled(SQL["release"], source=str(number), event=event))


class Triggers:
    """The functions above, for whoever does not care which store it is."""

    shape_of = staticmethod(shape_of)
    check_where = staticmethod(check_where)
    source_of = staticmethod(source_of)
    release = staticmethod(release)


ADOPTION: Final = Adoption(REACTION, Triggers())
