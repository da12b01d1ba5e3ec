"""Free text among jobs, in slices from new to old, so that no statement looks at very many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from duly.stores.drive import Steps
from duly.stores.reports import Search

SLICE: Final = 1000
"""Jobs looked at by one statement."""

Matching = Callable[[int | None, int], Steps[list[int]]]
"""The next generations of a selection: below one, so many."""
Fitting = Callable[[Sequence[int]], Steps[list[int]]]
"""Those of some generations whose texts fit, newest first."""


def generations_of(
    search: Search, matching: Matching, fitting: Fitting
) -> Steps[tuple[list[int], int | None]]:
    """The jobs found, newest first, and where to go on."""
    found: list[int] = []
    before, left = search.before, search.depth
    while left > 0:
        looked_at = yield from matching(before, min(SLICE, left))
        fits = yield from fitting(looked_at)
        if len(found) + len(fits) > search.limit:
            found += fits[: search.limit - len(found)]
            return found, found[-1]
        found += fits
        if len(looked_at) < min(SLICE, left):
            return found, None
        before, left = looked_at[-1], left - len(looked_at)
    return found, before
