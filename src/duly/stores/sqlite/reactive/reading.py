"""Single rows for a body, and documents chosen by people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from duly.errors import BadRequest, DefinitionError
from duly.reactive.change import Found
from duly.reactive.plan import sight_of
from duly.stores.changes import Absent, Choice, Glance, Impossible, check_parts
from duly.stores.drive import Statement, Steps
from duly.stores.following.adoption import Stored
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.reactive.capture import ADOPTION, shape_of
from duly.stores.sqlite.reactive.shape import SQL as ROWS
from duly.stores.sqlite.reactive.shape import Shape, key_text, stored

CHANGE = statements("change")


def read_row(glance: Glance) -> Steps[Found | None]:
    """A row, whether it matches, and what it looks like now, in one read."""
    if glance.locks:
        yield Statement(CHANGE["take_turn"])
    known = yield from _known(glance.task)
    try:
        shape = yield from _shape(known)
    except Absent:
        return None
    if glance.facts.by != shape.key:  # planned when other columns named the rows: none is meant any more
        return None
    columns = _wanted(shape, glance.columns)
    watch = [name for name in glance.facts.watch if name in shape.columns]
    text = shape.statement("read", columns=shape.listed(columns), watch=shape.listed(watch))
    rows = yield Statement(text, shape.bound(glance.facts.key))
    if not rows:
        return None
    matches, *rest = rows[0]
    border = max(1, len(watch))
    row = dict(zip(columns, rest[border:], strict=False))
    return Found(matches=bool(matches), seen=sight_of(watch, rest[: len(watch)]), row=row)


def _wanted(shape: Shape, names: Sequence[str] | None) -> tuple[str, ...]:
    unknown = [name for name in names or () if name not in shape.columns]
    if unknown:
        raise BadRequest(
            f"Table {shape.reaction.table} has no column {unknown[0]!r}. "
            f"Its columns: {', '.join(shape.columns)}."
        )
    return shape.columns if names is None else tuple(names)


def _known(task: str) -> Steps[Stored]:
    found = yield from ADOPTION.stored(task)
    if found is None:
        raise BadRequest(f"No worker has brought the reactive task {task!r} to this store yet.")
    return found


def _shape(known: Stored) -> Steps[Shape]:
    try:
        return (yield from shape_of(known.reaction))
    except Absent:
        raise
    except Impossible as error:
        raise DefinitionError(str(error)) from error


def name_row(task: str, key: Sequence[Any]) -> Steps[str]:
    """As planning writes it."""
    shape = yield from _shape((yield from _known(task)))
    check_parts(shape.reaction, shape.key, key)
    return key_text(tuple(key))


# --- documents by what they have in common --------------------------------------------------------


class Chosen(NamedTuple):
    """A document that somebody means."""

    parts: tuple[Any, ...]
    key: str
    job: str | None


def _choose(known: Stored, choice: Choice) -> Steps[list[Chosen]]:
    shape = yield from _shape(known)
    text = shape.statement("choose", chosen=choice.where or "true")
    rows = yield Statement(
        text,
        {
            "our_reaction": known.number,
            "our_key": choice.key,
            "our_states": pack([str(state) for state in choice.states]) if choice.states else None,
            "our_error": None if choice.error is None else choice.error.lower(),
            "our_anywhere": int(choice.where is None),
        },
    )
    return [Chosen(tuple(row[:4]), row[4], row[5]) for row in rows]


def chosen(choice: Choice) -> Steps[list[str]]:
    """The jobs last planned for these documents."""
    found = yield from _choose((yield from _known(choice.task)), choice)
    return [one.job for one in found if one.job is not None]


def revisit(choice: Choice) -> Steps[int]:
    """Have documents run again: nothing of them counts as dealt with, and all of them as changed."""
    known = yield from _known(choice.task)
    found = yield from _choose(known, choice)
    for one in found:
        yield Statement(ROWS["revisit"], {"our_reaction": known.number, "key": one.key})
        about = {"source": known.source, "reaction": known.number}
        yield Statement(CHANGE["append"], stored(one.parts) | about)
    return len(found)
