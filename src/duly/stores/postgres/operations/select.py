"""Which jobs a selection means, newest request first.

Jobs are found where they stand: the narrow tables know the lane and the state, and the wide one is read
only for ids and keys.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from duly.job import FINISHED, State
from duly.lifecycle import legible
from duly.stores.contract import Selection
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.arrays import integers, stored, stored_or_none, words
from duly.stores.postgres.operations.lanes import Track
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.searching import FIRST

SQL = statements("select")

NEVER: Final = 2**63 - 1
"""Above every generation."""


def matching(
    world: World,
    selection: Selection,
    *,
    before: int | None = None,
    since: int = FIRST,
    limit: int | None = None,
    spares: Collection[str] = (),
) -> Steps[list[int]]:
    """The generations of the jobs selected, but for those in the queues spared."""
    page = {"before": NEVER if before is None else before, "since": since, "limit": limit}
    selected = yield from _parameters(world, selection, spares)
    found = yield Statement(SQL[_statement(selection, spares)], selected | page)
    return [generation for (generation,) in found]


def reach(selection: Selection, before: int | None, window: int) -> Steps[int]:
    """From which generation on no more than so many ended jobs are looked at to find those selected.

    What is live stands in tables of its own, and ids and keys have an index: these are looked at as they are.
    """
    statement = _measure(selection)
    if statement is None:
        return FIRST
    values = {
        "before": NEVER if before is None else before,
        "others": window - 1,
        "fingerprint": selection.fingerprint,
        "state": selection.states[0] if selection.states else None,
    }
    found = yield Statement(SQL[statement], values)
    return found[0][0] if found else FIRST


def _measure(selection: Selection) -> str | None:
    """The statement that tells how far so many ended jobs reach; None where there are not many."""
    statement = _statement(selection, ())
    if statement == "standing":
        ended = FINISHED & set(selection.states or State)
        is_listed = len(selection.states) == 1 and State.DONE not in ended
        return None if not ended else "reach_of_state" if is_listed else "reach"
    return {"by_fingerprint": "reach_of_fingerprint", "by_error": "reach_of_errors"}.get(statement)


def counted(world: World, selection: Selection) -> Steps[int]:
    """How many jobs are selected."""
    if _statement(selection, ()) != "standing":
        return len((yield from matching(world, selection)))
    selected = yield from _parameters(world, selection, ())
    ((amount,),) = yield Statement(SQL["count"], selected)
    return int(amount)


def _statement(selection: Selection, spares: Collection[str]) -> str:
    if selection.ids:
        return "by_id"
    if selection.key is not None:
        return "by_key"
    if selection.fingerprint is not None:
        return "by_fingerprint"
    # The empty text is part of every error, and of none: it selects all.
    if selection.error:
        return "by_error"
    narrows = selection.tasks or selection.queues or selection.states or spares
    return "standing" if narrows else "newest"


def _parameters(world: World, selection: Selection, spares: Collection[str]) -> Steps[dict[str, Any]]:
    yield from world.book.update(world.moment)
    states = selection.states or tuple(State)
    return {
        "ids": words(selection.ids),
        "key": stored_or_none(selection.key),
        "error": stored(legible(selection.error).lower()) if selection.error else None,
        "fingerprint": selection.fingerprint,
        "lanes": _lanes(world, selection, spares),
        "states": words(states),
        "is_waiting": State.WAITING in states,
        "is_running": State.RUNNING in states,
        "is_ended": bool(FINISHED & set(states)),
        **{f"is_{state}": state in states for state in FINISHED},
    }


def _lanes(world: World, selection: Selection, spares: Collection[str]) -> str | None:
    """The lanes of the tasks and queues selected; None is all."""
    if not selection.tasks and not selection.queues and not spares:
        return None
    lanes = [(number, track) for number, track in world.book.items() if track.queue not in spares]
    return integers(number for number, track in lanes if _is_in(track, selection))


def _is_in(track: Track, selection: Selection) -> bool:
    wanted: Sequence[tuple[str, tuple[str, ...]]] = (
        (track.task, selection.tasks),
        (track.queue, selection.queues),
    )
    return all(not chosen or name in chosen for name, chosen in wanted)
