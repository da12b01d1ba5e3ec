"""`app.failures`: what goes wrong, by cause."""

from __future__ import annotations

from collections.abc import Callable

from duly.stores.contract import Store
from duly.stores.reports import FailureGroup

FailureGroups = list[FailureGroup]
"""Named, because inside `Failures` the word `list` is a method."""


class Failures:
    """Every method has an async twin with a leading `a`."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    def list(self, *, limit: int = 20) -> FailureGroups:
        """Jobs with the same fingerprint of their error, as groups; the one that failed last comes first.

        `app.jobs` takes the fingerprint as a filter, to look at them, retry or cancel them.
        """
        return self._store().run(self._store().failures(limit))

    async def alist(self, *, limit: int = 20) -> FailureGroups:
        """The async twin of list."""
        return await self._store().arun(self._store().failures(limit))
