"""Single rows for a body, and documents chosen by people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from duly.reactive.change import Found
from duly.reactive.plan import sight_of
from duly.stores.changes import Choice, Glance
from duly.stores.drive import Statement, Steps
from duly.stores.following.adoption import Stored
from duly.stores.following.reading import Reading, check_parts, wanted
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.reactive.capture import ADOPTION
from duly.stores.sqlite.reactive.shape import SQL as ROWS
from duly.stores.sqlite.reactive.shape import Shape, key_text, stored

CHANGE = statements("change")
READING: Final = Reading(ADOPTION)


def read_row(glance: Glance) -> Steps[Found | None]:
    """A row, whether it matches, and what it looks like now, in one read."""
    if glance.locks:
        yield Statement(CHANGE["take_turn"])
    shape: Shape | None = yield from READING.meant(glance)
    if shape is None:
        return None
    columns = wanted(shape, glance.columns)
    watch = [name for name in glance.facts.watch if name in shape.columns]
    text = shape.statement("read", columns=shape.listed(columns), watch=shape.listed(watch))
    rows = yield Statement(text, shape.bound(glance.facts.key))
    if not rows:
        return None
    matches, *rest = rows[0]
    border = max(1, len(watch))
    row = dict(zip(columns, rest[border:], strict=False))
    return Found(matches=bool(matches), seen=sight_of(watch, rest[: len(watch)]), row=row)


def name_row(task: str, key: Sequence[Any]) -> Steps[str]:
    """As planning writes it."""
    shape: Shape = yield from READING.shape((yield from READING.known(task)))
    check_parts(shape, key)
    return key_text(tuple(key))


# --- documents by what they have in common --------------------------------------------------------


class Chosen(NamedTuple):
    """A document that somebody means."""

    parts: tuple[Any, ...]
    key: str
    job: str | None


def _choose(known: Stored, choice: Choice) -> Steps[list[Chosen]]:
    shape: Shape = yield from READING.shape(known)
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
    found = yield from _choose((yield from READING.known(choice.task)), choice)
    return [one.job for one in found if one.job is not None]


def revisit(choice: Choice) -> Steps[int]:
    """Have documents run again: nothing of them counts as dealt with, and all of them as changed."""
    known = yield from READING.known(choice.task)
    found = yield from _choose(known, choice)
    for one in found:
        yield Statement(ROWS["revisit"], {"our_reaction": known.number, "key": one.key})
        about = {"source": known.source, "reaction": known.number}
        yield Statement(CHANGE["append"], stored(one.parts) | about)
    return len(found)
