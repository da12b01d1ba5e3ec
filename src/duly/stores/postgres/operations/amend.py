"""amend: an operator's order over a selection.

What the order is given to stands still meanwhile: its serial is locked, or, where it has none, the row that
says where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from duly.job import FINISHED
from duly.stores.contract import Amended, Amendment, Delete, Revive, Selection
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations import serials
from duly.stores.postgres.operations.again import Repeat
from duly.stores.postgres.operations.arrays import integers, stored, stored_or_none
from duly.stores.postgres.operations.rows import Row
from duly.stores.postgres.operations.select import matching
from duly.stores.postgres.operations.texts import dropping, statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.orders import Rival, needs_rivals, obey

SQL = statements("amend")
DROP_ENDED: Final = dropping(SQL["ended"])


def amend(
    world: World, selection: Selection, amendment: Amendment, *, by: str, limit: int
) -> Steps[list[Amended]]:
    generations = yield from matching(world, selection, limit=limit, spares=selection.spares)
    yield from _hold(world, generations, amendment)
    amended: list[Amended] = []
    gone = (yield from _drop_ended(generations)) if isinstance(amendment, Delete) else {}
    for generation in generations:
        if generation in gone:
            amended.append(Amended(gone[generation], took_effect=True, reason="deleted"))
            continue
        # Read anew each time: an order to one job may promote the next.
        rows = yield from world.rows([generation])
        if rows:
            rivals = yield from _rivals(rows[0], amendment)
            amended.append((yield from obey(world, rows[0], amendment, by, rivals)))
    return amended


def _hold(world: World, generations: Sequence[int], amendment: Amendment) -> Steps[None]:
    rows = yield from world.rows(generations)
    if isinstance(amendment, Revive):  # live jobs are left alone, so nobody need wait for them
        rows = [row for row in rows if row.state in FINISHED]
    yield from serials.lock(row.serial for row in rows if row.serial is not None)
    free = [row.generation for row in rows if row.serial is None]
    if not free:
        return
    wanted = {"generations": integers(free)}
    held = {generation for (generation,) in (yield Statement(SQL["hold_running"], wanted))}
    held |= {generation for (generation,) in (yield Statement(SQL["hold_ready"], wanted))}
    held |= {generation for (generation,) in (yield Statement(SQL["hold_ended"], wanted))}
    there = {generation for (generation,) in (yield Statement(SQL["there"], wanted))}
    if there - held:  # it moved while we were looking for it
        raise Repeat


def _drop_ended(generations: Sequence[int]) -> Steps[dict[int, str]]:
    """Ended jobs at once, not one by one: a million of them is deleted in minutes, not in half an hour."""
    found = yield Statement(DROP_ENDED, {"generations": integers(generations)})
    return dict(found)


def _rivals(row: Row, amendment: Amendment) -> Steps[list[Rival]]:
    if not needs_rivals(row, amendment):
        return []
    of_key = {"key": stored_or_none(row.key), "generation": row.generation, "task": stored(row.task)}
    others = yield Statement(SQL["rivals"], of_key)
    return [(job_id, generation, is_waiting) for job_id, generation, is_waiting in others]
