"""The one handle of a process that writes, and what else a commit needs.

Opened when first needed and closed for a fork, so whoever writes takes it in hand for one batch.
"""

from __future__ import annotations

import sqlite3
import threading
from datetime import timedelta

from duly.stores.sqlite.address import Address, Mode
from duly.stores.sqlite.connection import abandon, connect
from duly.stores.sqlite.journal import Checkpointer


class Pen:
    """Lent to one thread at a time."""

    def __init__(self, address: Address, mode: Mode) -> None:
        self._address = address
        self._mode = mode
        self.in_hand = threading.Lock()
        """Held by whoever uses the handle: the lock itself, since an interrupt could come between it and any
        words of ours around it."""
        self._connection: sqlite3.Connection | None = None
        self._second: sqlite3.Connection | None = None
        self._checkpointer: Checkpointer | None = None

    @property
    def handle(self) -> sqlite3.Connection:
        """For whoever has it in hand. What an interrupt left half done there was acknowledged to nobody."""
        connection = self._connection or self._open()
        if connection.in_transaction:
            connection.rollback()
        return connection

    def after_commit(self, commits: int = 1) -> None:
        """Write the log back every so often. The pen is in hand, the file lock held."""
        if self._checkpointer is not None:
            self._checkpointer.after_commit(commits)

    def write_back(self) -> None:
        """Write the log back now. The file lock is held."""
        with self.in_hand:
            if self._checkpointer is not None:
                self._checkpointer.write_back()

    def close(self) -> None:
        with self.in_hand:
            self._close()

    def rest(self, patience: timedelta) -> bool:
        """Have no handle open, and keep it in hand; false if a batch would not end in time."""
        if not self.in_hand.acquire(timeout=patience.total_seconds()):
            return False
        try:
            self._close()
        except BaseException:  # a signal's: nobody would know that it is in hand
            self.in_hand.release()
            raise
        return True

    def abandon(self) -> None:
        """In a forked child that inherited the handles after all."""
        for connection in (self._connection, self._second):
            if connection is not None:
                abandon(connection)

    def _open(self) -> sqlite3.Connection:
        self._connection = connect(self._address)
        if self._mode is Mode.WAL:
            self._second = connect(self._address)
            self._checkpointer = Checkpointer(self._connection, self._second, self._address.path)
        return self._connection

    def _close(self) -> None:
        connections = (self._connection, self._second)
        self._connection = self._second = self._checkpointer = None
        for connection in connections:  # which nobody finds any more, should an interrupt come
            if connection is not None:
                connection.close()
