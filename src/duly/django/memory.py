"""The engine in an SQLite database in memory, where Django's tests live.

Only Django's own connections lead there, so everything is done on the one of the calling thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

from asgiref.sync import sync_to_async

from duly.clock import Clock, SystemClock, boot_id
from duly.django.compat import connections
from duly.django.engines import Engine
from duly.errors import StoreBusy
from duly.stores.bells import Bell
from duly.stores.contract import Doorbell, Store
from duly.stores.drive import Operation
from duly.stores.rings import ring_after_commit
from duly.stores.sqlite.caller import CallersConnection
from duly.stores.sqlite.connection import Spell, deadline, pause_briefly, spelling
from duly.stores.sqlite.migrate import shipped
from duly.stores.sqlite.reactive import Following

T = TypeVar("T")

PATIENCE: Final = timedelta(seconds=5)


class MemoryEngine(Engine):
    """An application whose store is Django's connection."""

    def __init__(self, alias: str, **options: Any) -> None:
        super().__init__(f"sqlite:///{alias}.in-memory", **options)
        self._in_memory = MemoryStore(alias, self.clock, self.settings.namespace)

    @property
    def store(self) -> Store:
        """Where Django's connection leads just now."""
        return self.premises.stand_in or self._in_memory

    def open(self) -> None:
        """Nothing to open: the connection is Django's."""

    def close(self) -> None:
        """Nor to close."""


class GuestConnection(CallersConnection):
    """A connection that needs no check of its file: there is none."""

    def _check_file(self) -> None:
        pass


class MemoryStore(Following):
    """The operations of the SQLite store on Django's connection of whichever thread asks."""

    def __init__(self, alias: str, clock: Clock | None, namespace: str) -> None:
        super().__init__(clock or SystemClock(), boot_id())
        self.url = f"sqlite:///{alias}.in-memory"
        self.level = shipped()[-1].number
        self._alias = alias
        self._spell: Spell = spelling(namespace)
        self._turn = threading.RLock()
        self._bells: list[Bell] = []

    def run(self, operation: Operation[T]) -> T:
        return self.run_on(connections[self._alias], operation)

    async def arun(self, operation: Operation[T]) -> T:
        return await sync_to_async(self.run, thread_sensitive=True)(operation)

    def run_on(self, connection: Any, operation: Operation[T]) -> T:
        with self._turn:  # connections that share a cache do not wait for each other's tables
            return _patiently(lambda: self._perform(connection, operation))

    async def arun_on(self, connection: Any, operation: Operation[T]) -> T:
        return self.run_on(connection, operation)

    def _perform(self, connection: Any, operation: Operation[T]) -> T:
        guest = GuestConnection(connection, "the database in memory", self._spell, mute=False)
        value = guest.run(operation)
        if operation.writes:
            ring_after_commit(connection, self.ring, has_committed=guest.has_committed)
        return value

    def open(self) -> None:
        """`migrate` made the tables; there is nothing else to open."""

    def close(self) -> None:
        """The connection is Django's."""

    def check_schema(self) -> None:
        """It is as old as this process."""

    def ring(self) -> None:
        for bell in list(self._bells):
            bell.wake()

    def doorbell(self) -> Doorbell:
        bell = Bell()
        self._bells.append(bell)
        return bell


def _patiently(act: Callable[[], T]) -> T:
    """Another thread's statement may hold a table for a moment."""
    may_wait = deadline(PATIENCE)
    while True:
        try:
            return act()
        except StoreBusy:
            if not may_wait():
                raise
        pause_briefly()
