"""Single rows for a body, and documents chosen by people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from duly.job import serial_of
from duly.reactive.change import Found
from duly.reactive.plan import sight_of
from duly.stores.changes import Choice, Glance
from duly.stores.drive import Statement, Steps
from duly.stores.following.adoption import Stored
from duly.stores.following.reading import Reading, check_parts, wanted
from duly.stores.postgres.operations import serials
from duly.stores.postgres.operations.arrays import words
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import digest
from duly.stores.postgres.reactive.capture import ADOPTION
from duly.stores.postgres.reactive.planning import append
from duly.stores.postgres.reactive.shape import SQL as ROWS
from duly.stores.postgres.reactive.shape import Shape

CHANGE = statements("change")
READING: Final = Reading(ADOPTION)


def read_row(glance: Glance) -> Steps[Found | None]:
    """A row, whether it matches, and what it looks like now, in one read."""
    shape: Shape | None = yield from READING.meant(glance)
    if shape is None:
        return None
    columns = wanted(shape, glance.columns)
    watch = [name for name in glance.facts.watch if name in shape.kinds]
    text = shape.statement(
        "read",
        columns=shape.listed(columns),
        watch=shape.texts(watch),
        lock="for update" if glance.locks else "",
    )
    settings = yield Statement(ROWS["get_settings"])
    yield Statement(ROWS["settings"])
    rows = yield Statement(text, _bound(shape, glance.facts.key))
    yield Statement(ROWS["restore_settings"], {"values": words(list(settings[0]))})
    if not rows:
        return None
    matches, *rest = rows[0]
    row = dict(zip(columns, rest[max(1, len(watch)) :], strict=False))
    return Found(matches=matches, seen=sight_of(watch, rest[: len(watch)]), row=row)


def _bound(shape: Shape, key: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(shape.parts, key, strict=True))


def hold_row(glance: Glance) -> Steps[None]:
    """Keep it as it is until the transaction ends; nobody is waited for long."""
    shape: Shape | None = yield from READING.meant(glance)
    if shape is None:
        return
    yield Statement(ROWS["patience"])
    yield Statement(shape.statement("hold"), _bound(shape, glance.facts.key))


def name_row(task: str, key: Sequence[Any]) -> Steps[str]:
    """As the triggers write it."""
    shape: Shape = yield from READING.shape((yield from READING.known(task)))
    check_parts(shape, key)
    yield Statement(ROWS["settings"])
    ((text,),) = yield Statement(shape.statement("name_row"), _bound(shape, key))
    return str(text)


# --- documents by what they have in common --------------------------------------------------------


class Chosen(NamedTuple):
    """A document that somebody means."""

    serial: str
    key: str
    job: str | None


def _choose(known: Stored, choice: Choice) -> Steps[list[Chosen]]:
    shape: Shape = yield from READING.shape(known)
    states = words([str(state) for state in choice.states]) if choice.states else None
    rows = yield Statement(
        shape.statement("choose", chosen=choice.where or "true"),
        {
            "duly_reaction": known.number,
            "duly_key": choice.key,
            "duly_states": states,
            "duly_error": None if choice.error is None else choice.error.lower(),
            "duly_anywhere": choice.where is None,
        },
    )
    return [Chosen(*row) for row in rows]


def chosen(choice: Choice) -> Steps[list[str]]:
    """The jobs last planned for these documents."""
    found = yield from _choose((yield from READING.known(choice.task)), choice)
    return [one.job for one in found if one.job is not None]


def revisit(choice: Choice) -> Steps[int]:
    """Have documents run again: nothing of them counts as dealt with, and all of them as changed."""
    known = yield from READING.known(choice.task)
    found = yield from _choose(known, choice)
    assert known.source is not None
    if found:
        yield from serials.lock([digest(str(serial_of(choice.task, one.key))) for one in found])
        yield Statement(CHANGE["revisit"], {"serials": words([one.serial for one in found])})
        yield append(known.source, known.number, {one.key: False for one in found})
    return len(found)
