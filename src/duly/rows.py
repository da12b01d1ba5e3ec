"""Rows for the bodies of reactive tasks, on the connection they ask for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, cast

from duly.errors import BadRequest, StoreUnavailable
from duly.job import Delivery
from duly.options import Options
from duly.reactive.change import Facts, Found
from duly.run import Binding, Run
from duly.stores.changes import Changes, Glance
from duly.stores.contract import Store

AWAY: Final = timedelta(seconds=1)
"""How long a run waits for a store that could not be read."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Reads for one run. An exactly-once run reads in its own transaction."""

    store: Callable[[], Store]
    options: Options
    run: Run

    def read(
        self, facts: Facts, columns: Sequence[str] | None, connection: Any, *, locks: bool
    ) -> Found | None:
        """One read, blocking."""
        with self._excused():
            return self._read(facts, columns, connection, locks=locks)

    async def aread(
        self, facts: Facts, columns: Sequence[str] | None, connection: Any, *, locks: bool
    ) -> Found | None:
        """One read, awaited."""
        with self._excused():
            return await self._aread(facts, columns, connection, locks=locks)

    @contextmanager
    def _excused(self) -> Generator[None, None, None]:
        """A store that is away is not the body's fault: the run is put off, whatever its retry policy."""
        try:
            yield
        except StoreUnavailable:
            self.run.defer(AWAY)
            raise

    def _read(
        self, facts: Facts, columns: Sequence[str] | None, connection: Any, *, locks: bool
    ) -> Found | None:
        store = cast(Changes, self.store())
        operation = store.read_row(self._glance(facts, columns, locks=locks))
        if connection is not None:
            return store.run_on(connection, operation)
        if (binding := self._binding()) is not None:
            return cast(Found | None, binding.within(operation))
        self._refuse(locks=locks)
        return store.run(operation)

    async def _aread(
        self, facts: Facts, columns: Sequence[str] | None, connection: Any, *, locks: bool
    ) -> Found | None:
        store = cast(Changes, self.store())
        operation = store.read_row(self._glance(facts, columns, locks=locks))
        if connection is not None:
            return await store.arun_on(connection, operation)
        if (binding := self._binding()) is not None:
            return cast(Found | None, await binding.awithin(operation))
        self._refuse(locks=locks)
        return await store.arun(operation)

    def _glance(self, facts: Facts, columns: Sequence[str] | None, *, locks: bool) -> Glance:
        return Glance(self.options.name, facts, None if columns is None else tuple(columns), locks)

    def _binding(self) -> Binding | None:
        return self.run.binding if self.options.delivery is Delivery.EXACTLY_ONCE else None

    def _refuse(self, *, locks: bool) -> None:
        if locks:
            raise BadRequest(
                "document(lock=True) keeps a row as it is until a transaction ends, and there is none: pass "
                "connection=… of one of yours, or declare the task with delivery='exactly_once'."
            )
