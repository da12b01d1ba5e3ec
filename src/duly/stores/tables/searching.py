"""Free text among jobs, in slices from new to old, so that no statement looks at very many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from duly.stores.drive import Steps
from duly.stores.reports import Search

SLICE: Final = 1000
"""Jobs looked at by one statement."""
FIRST: Final = 0
"""Below every generation."""


class Slice(NamedTuple):
    """Some of the jobs of a selection: those from one generation on and below another, the newest first."""

    before: int | None
    since: int
    limit: int


class Walk(NamedTuple):
    """How a store goes through the jobs of a selection."""

    reach: Callable[[int | None, int], Steps[int]]
    """From which generation on no more than so many jobs must be looked at; `FIRST` where all can be."""
    matching: Callable[[Slice], Steps[list[int]]]
    """The generations in a slice."""
    fitting: Callable[[Sequence[int]], Steps[list[int]]]
    """Those of some generations whose texts fit, newest first."""


def generations_of(search: Search, walk: Walk) -> Steps[tuple[list[int], int | None]]:
    """The jobs found, newest first, and where to go on."""
    found: list[int] = []
    before, left = search.before, search.depth
    while left > 0:
        room, window = search.limit - len(found), min(SLICE, left)
        since = yield from walk.reach(before, window)
        limit = window if search.text else min(room + 1, window)
        looked_at = yield from walk.matching(Slice(before, since, limit))
        fits = (yield from walk.fitting(looked_at)) if search.text else looked_at
        found += fits[:room]
        if len(fits) > room:
            return found, found[-1] if found else search.before
        is_cut = len(looked_at) == limit
        if not is_cut and since == FIRST:
            return found, None
        before, left = looked_at[-1] if is_cut else since, left - (limit if is_cut else window)
    return found, before
