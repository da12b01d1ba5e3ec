"""The SQLite store: the operations, and a driver for one file."""

from __future__ import annotations

from datetime import timedelta

from duly.clock import Clock, SystemClock, boot_id
from duly.stores.sqlite.driver import PATIENCE, Driver
from duly.stores.sqlite.migrate import shipped
from duly.stores.sqlite.reactive import Following


class SqliteStore(Driver, Following):
    """Jobs in one file, shared by all processes of one machine."""

    def __init__(
        self,
        url: str = "sqlite:///duly.db",
        *,
        clock: Clock | None = None,
        namespace: str = "duly",
        patience: timedelta = PATIENCE,
    ) -> None:
        """`patience` is how long a write waits for others before it raises `StoreBusy`."""
        clock = clock or SystemClock()
        Driver.__init__(self, url, migrations=shipped(), clock=clock, namespace=namespace, patience=patience)
        Following.__init__(self, clock, boot_id())
        self.level = shipped()[-1].number
