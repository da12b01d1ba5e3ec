"""search: free text among the jobs of a selection."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from duly.lifecycle import legible
from duly.stores.contract import Selection
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.arrays import integers, restored_or_none, stored
from duly.stores.postgres.operations.find import jobs_of
from duly.stores.postgres.operations.select import matching, reach
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.reports import Found, Search
from duly.stores.tables.searching import Slice, Walk, generations_of

SQL = statements("search")


def search(world: World, selection: Selection, search: Search) -> Steps[Found]:
    """As deep as it may go."""

    def next_ones(part: Slice) -> Steps[list[int]]:
        return matching(world, selection, before=part.before, since=part.since, limit=part.limit)

    walk = Walk(partial(reach, selection), next_ones, partial(_fitting, search))
    generations, following = yield from generations_of(search, walk)
    rows = yield from world.rows(generations)
    return Found((yield from jobs_of(world, rows)), following)


def _fitting(search: Search, generations: Sequence[int]) -> Steps[list[int]]:
    looked_at = {"generations": integers(generations)}
    if search.text.isascii():
        text = stored(legible(search.text).lower())
        found = yield Statement(SQL["fitting"], looked_at | {"text": text})
        return [generation for (generation,) in found]
    texts = yield Statement(SQL["texts"], looked_at)
    return [generation for generation, *said in texts if search.fits(*map(restored_or_none, said))]
