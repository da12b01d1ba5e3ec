"""amend: an operator's order over a selection."""

from __future__ import annotations

from duly.job import State
from duly.stores.contract import Amended, Amendment, Selection
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.intake import absorb
from duly.stores.sqlite.operations.rows import Row
from duly.stores.sqlite.operations.select import matching
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.orders import Rival, needs_rivals, obey

SQL = statements("amend")


def amend(
    world: World, selection: Selection, amendment: Amendment, *, by: str, limit: int
) -> Steps[list[Amended]]:
    yield from absorb(world)
    generations = yield from matching(selection, limit=limit, spared=selection.spares)
    amended: list[Amended] = []
    for row_id in [row.id for row in (yield from world.rows(generations))]:
        row = yield from world.row(row_id)  # read anew: an order to one job may promote the next
        assert row is not None, "no order to one job removes another"
        rivals = yield from _rivals(row, amendment)
        amended.append((yield from obey(world, row, amendment, by, rivals)))
    return amended


def _rivals(row: Row, amendment: Amendment) -> Steps[list[Rival]]:
    if not needs_rivals(row, amendment):
        return []
    of_key = {"key": row.key, "task": row.task, "generation": row.generation}
    others = yield Statement(SQL["rivals"], of_key)
    return [(job_id, generation, state == State.WAITING) for job_id, generation, state in others]
