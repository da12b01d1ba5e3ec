"""Exactly-once tasks in a virtual world: the transaction is the test's own, the store only pretends.

The jobs live in memory, so nothing ties the two together as a database would. What a test sees is the same:
effects stay if the run completes, and go with everything it enqueued if it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duly.app import App
from duly.errors import NotInRun
from duly.job import Decision, Request
from duly.lifecycle import Settled
from duly.stores.contract import Placed
from duly.transactions import Source
from duly.transactions.borrowed import BorrowedSource
from duly.worker.binding import Binding
from duly.worker.endings import Concluded
from duly.worker.hand import Holding
from duly.worker.transaction import Counter


class VirtualCounter(Counter):
    """Lends what the test gave, else what the application has."""

    def __init__(self, app: App, worker: str, given: Any) -> None:
        super().__init__(app, worker)
        self.given = app.transactions if given is None else given

    @property
    def source(self) -> Source:
        """Where transactions come from."""
        if self.given is None:
            raise NotInRun(
                "run.connection has no database in a virtual world. Give it one: "
                "virtual(app, transactions=lambda: contextlib.nullcontext(connection)), or an engine."
            )
        return BorrowedSource(self.store, self.given, self.app.settings.lease)


class VirtualBinding(Binding):
    """A run's transaction; what it enqueues is kept back until it commits."""

    def __init__(self, counter: VirtualCounter, holding: Holding) -> None:
        super().__init__(counter, holding)
        self._has_source = counter.given is not None
        self._kept_back: list[Request] = []
        self._store = counter.store

    def prepare(self) -> None:
        """A body that needs no connection needs none here either."""
        if self._has_source:
            super().prepare()

    async def aprepare(self) -> None:
        """The async twin of prepare."""
        if self._has_source:
            await super().aprepare()

    def place(self, requests: Sequence[Request]) -> list[Placed]:
        """Keep them until the end."""
        self._kept_back += requests
        return [Placed(request.id, 0, Decision.PENDING) for request in requests]

    async def aplace(self, requests: Sequence[Request]) -> list[Placed]:
        """The async twin of place."""
        return self.place(requests)

    def ended(self, ended: Concluded, answer: Settled) -> None:
        """The run completed, or did not: now its requests count, or never did."""
        if self._kept_back and ended.has_returned and answer is Settled.SETTLED:
            self._store.run(self._store.put(self._kept_back))
