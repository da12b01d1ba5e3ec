"""Everything one process holds open on the file.

A forked child gets a desk of its own and leaves its parent's alone, handles and locks included.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Final, TypeVar

from duly.stores.drive import Operation
from duly.stores.sqlite.address import Address, Mode
from duly.stores.sqlite.connection import Readers, Spell, abandon, connect
from duly.stores.sqlite.faults import Identity, explained
from duly.stores.sqlite.filelock import FileLock
from duly.stores.sqlite.journal import Checkpointer
from duly.stores.sqlite.writer import Writer

T = TypeVar("T")

LOOK_EVERY: Final = 1.0
READING_THREADS: Final = 4


class Desk:
    """The writer, the readers and the lock of one process."""

    def __init__(
        self, address: Address, spell: Spell, mode: Mode, lock: FileLock, patience: timedelta
    ) -> None:
        self.pid = os.getpid()
        self.mode = mode
        self.lock = lock
        self._address = address
        self._patience = patience
        self._identity = Identity(address.path)
        self._looked_at = time.monotonic()
        self._connection = connect(address)
        self._second = connect(address)
        self.readers = Readers(address, spell)
        self.writer = Writer(
            self._connection, lock, self._identity, self._checkpointer(), spell, address.path, patience
        )
        self._threads: ThreadPoolExecutor | None = None

    def read(self, operation: Operation[T]) -> T:
        """Perform without writing."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK_EVERY:
            self._identity.verify()
            self._looked_at = now
        try:
            return self.readers.read(operation, self._patience)
        except sqlite3.Error as error:
            self._identity.verify()
            raise explained(error, self._address.path, operation.name) from error

    async def aread(self, operation: Operation[T]) -> T:
        """Perform in a thread: a cold page can take as long as the disk likes."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(READING_THREADS, thread_name_prefix="duly-sqlite-reader")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.read, operation)

    def close(self) -> None:
        """Finish the batch in progress, write the log back, close every handle."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
        self.readers.close()
        if self.writer.close():
            self._connection.close()
            self._second.close()
            self.lock.close()

    def abandon(self) -> None:
        """In a forked child: never touch these again."""
        for connection in (self._connection, self._second, *self.readers.opened):
            abandon(connection)
        self.lock.close()  # the lock itself stays with the parent; an inherited handle would outlive it

    def _checkpointer(self) -> Checkpointer | None:
        if self.mode is not Mode.WAL:
            return None
        return Checkpointer(self._connection, self._second, self._address.path)
