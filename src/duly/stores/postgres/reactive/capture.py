"""Triggers on the user's table: what they need, whether they are there, and putting them there."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Final

from psycopg import sql

from duly.reactive.reaction import Reaction
from duly.stores.changes import Anatomy, Busy, Column, Impossible, bad_where, no_table
from duly.stores.drive import Statement, Steps
from duly.stores.following.adoption import Adoption, Now
from duly.stores.postgres.operations.arrays import words
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.reactive.shape import SQL, Kind, Shape, filled, quoted
from duly.stores.postgres.spelling import bare

REACTION = statements("reaction")

EVENTS: Final = ("insert", "update", "delete", "truncate")
TABLES: Final = ("r", "p")
"""What can have such triggers: tables, and those made of partitions."""


def shape_of(reaction: Reaction) -> Steps[Shape]:
    """The table as it is now; raises Impossible when it cannot be followed as declared."""
    schema, name = reaction.table
    found = yield Statement(SQL["table"], {"name": quoted(name) if schema is None else quoted(schema, name)})
    if not found:
        raise no_table(reaction)
    ((oid, schema, name, kind),) = found
    if kind not in TABLES:
        raise Impossible(f"{reaction.table} is no ordinary table, and cannot be followed.")
    columns = yield Statement(SQL["columns"], {"oid": oid})
    anatomy = yield from _anatomy(oid, [column for column, _, _ in columns])
    kinds = {column: Kind(cast, base) for column, cast, base in columns}
    return Shape.of(reaction, anatomy, quoted(schema, name), kinds)


def _anatomy(oid: int, columns: list[str]) -> Steps[Anatomy]:
    indexes: dict[int, list[str]] = defaultdict(list)
    primary: tuple[str, ...] = ()
    for index, is_primary, column in (yield Statement(SQL["unique"], {"oid": oid})):
        indexes[index].append(column)
        primary = tuple(indexes[index]) if is_primary else primary
    return Anatomy(
        columns={column: Column(column, "") for column in columns},
        primary_key=primary,
        unique=tuple(frozenset(names) for names in indexes.values()),
        oid=oid,
    )


def check_where(shape: Shape) -> Steps[None]:
    """Ask the server whether the condition speaks of the row alone, as it must in a partial index."""
    reaction = shape.reaction
    if reaction.where is None:
        return
    condition = f"case when\n{reaction.where}\nthen true end"  # between words, so that brackets must match
    asked = {"relation": shape.table, "name": reaction.table.name, "condition": condition}
    ((complaint,),) = yield Statement(SQL["complaint"], asked)
    if complaint is not None:
        raise bad_where(reaction, complaint)


# --- triggers -------------------------------------------------------------------------------------


def source_of(world: Now, shape: Shape) -> Steps[tuple[int, bool]]:
    """The number of the table with this key, with its triggers in place; and whether these had vanished."""
    named = {"name": shape.table, "key": json.dumps(shape.key)}
    found = yield Statement(REACTION["source"], named)
    installed_at = found[0][1] if found else None
    number = found[0][0] if found else (yield Statement(REACTION["add_source"], named))[0][0]
    if (yield from _is_installed(shape, number)):
        return number, False
    yield from _install(shape, number)
    yield Statement(REACTION["installed"], {"number": number, "now": world.now})
    return number, installed_at is not None


def _is_installed(shape: Shape, number: int) -> Steps[bool]:
    given = b"".join(one.encode() + b"\0" for one in (str(number), *shape.key))
    names = words(list((yield from _names(number)).values()))
    asked = {"oid": shape.oid, "names": names, "given": f"\\x{given.hex()}"}
    ((count,),) = yield Statement(SQL["installed"], asked)
    return bool(count == len(EVENTS))


def _install(shape: Shape, number: int) -> Steps[None]:
    """Users wait for us as long as we wait for them, and that is not for long."""
    yield from _check_owner(shape)
    ((is_held,),) = yield Statement(SQL["seize"], {"relation": shape.table})
    if not is_held:
        raise Busy(f"Table {shape.reaction.table} is busy: its triggers are installed as soon as it is not.")
    triggers = yield from _names(number)
    given = ", ".join(sql.Literal(one).as_string(None) for one in (str(number), *shape.key))
    for event in EVENTS:
        names = {"name": quoted(triggers[event]), "table": bare(shape.table), "given": bare(given)}
        yield Statement(filled(SQL["drop"], **names), {})
        yield Statement(filled(SQL[f"capture_{event}"], **names), {})
        yield Statement(filled(SQL["enable"], **names), {})


def _check_owner(shape: Shape) -> Steps[None]:
    ((owner, role, is_member),) = yield Statement(SQL["owner"], {"oid": shape.oid})
    if not is_member:
        raise Impossible(
            f"Table {shape.reaction.table} belongs to {owner}, and {role} may not put triggers on it: "
            f"GRANT {quoted(owner)} TO {quoted(role)}."
        )


def _names(number: int) -> Steps[dict[str, str]]:
    """What the triggers of a table are called, by event."""
    ((mark,),) = yield Statement(SQL["mark"])
    return {event: f"duly_capture_{mark}_{number}_{event}" for event in EVENTS}


def release(number: int) -> Steps[None]:
    """Take the triggers away, if the table is free; a table that is gone has taken them along."""
    names = words(list((yield from _names(number)).values()))
    found = yield Statement(SQL["where_installed"], {"names": names})
    for schema, name, one in found:
        table = quoted(schema, name)
        ((is_held,),) = yield Statement(SQL["seize"], {"relation": table})
        if is_held:
            yield Statement(filled(SQL["drop"], name=quoted(one), table=bare(table)), {})


class Triggers:
    """The functions above, for whoever does not care which store it is."""

    shape_of = staticmethod(shape_of)
    check_where = staticmethod(check_where)
    source_of = staticmethod(source_of)
    release = staticmethod(release)


ADOPTION: Final = Adoption(REACTION, Triggers())
