"""Everything one process holds open on the file.

Handles must not be open while the process forks, so a desk can rest: parent and child open anew.
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
from duly.stores.sqlite.connection import Readers, Spell
from duly.stores.sqlite.faults import Identity, explained
from duly.stores.sqlite.filelock import FileLock
from duly.stores.sqlite.pen import Pen
from duly.stores.sqlite.writer import Writer

T = TypeVar("T")

LOOK_EVERY: Final = 1.0
"""Seconds after which a reader looks whether the file is still the one that was opened."""
READING_THREADS: Final = 4


class Desk:
    """The writer, the readers and the lock of one process."""

    def __init__(
        self, address: Address, spell: Spell, mode: Mode, lock: FileLock, patience: timedelta
    ) -> None:
        self.pid = os.getpid()
        self.has_rested = False
        """No handle is open, as a fork needs it."""
        self._is_pen_resting = False
        self._path = address.path
        self._lock = lock
        self._patience = patience
        self._identity = Identity(address.path)
        self._looked_at = time.monotonic()
        self._pen = Pen(address, mode)
        self._readers = Readers(address, spell)
        self.writer = Writer(self._pen, lock, self._identity, spell, address.path, patience)
        self._threads: ThreadPoolExecutor | None = None

    def read(self, operation: Operation[T]) -> T:
        """Perform without writing."""
        now = time.monotonic()
        if now - self._looked_at >= LOOK_EVERY:
            self._identity.verify()
            self._looked_at = now
        try:
            return self._readers.read(operation, self._patience)
        except sqlite3.Error as error:
            self._identity.verify()
            raise explained(error, self._path, operation.name) from error

    async def aread(self, operation: Operation[T]) -> T:
        """Perform in a thread: a cold page can take as long as the disk likes."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(READING_THREADS, thread_name_prefix="duly-sqlite-reader")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.read, operation)

    def after_commit(self, commits: int) -> None:
        """Count commits of bodies, and write the log back every so often. The file lock is held."""
        with self._pen.in_hand:
            self._pen.after_commit(commits)

    def close(self) -> None:
        """Finish the batch in progress, write the log back, close every handle."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)
        self._readers.close()
        try:
            self.writer.close()
        finally:
            if self.writer.has_ended:
                self._lock.close()

    def rest(self) -> None:
        """Before a fork: close the handles and let nobody open others. Waits for what is in progress."""
        self._is_pen_resting = self._pen.rest(self._patience)
        self.has_rested = self._readers.rest(self._patience) and self._is_pen_resting

    def resume(self) -> None:
        """After it, in the parent: handles open again at need."""
        self.has_rested = False
        if self._is_pen_resting:
            self._is_pen_resting = False
            self._pen.in_hand.release()  # itself: an interrupt would find a place in any function of ours
        self._readers.resume()

    def abandon(self) -> None:
        """In a forked child: never touch these again."""
        if not self.has_rested:
            self._pen.abandon()
            self._readers.abandon()
        self._lock.close()  # the lock itself stays with the parent; an inherited handle would outlive it
