"""One writer at a time among all processes, in the order they came.

SQLite's own lock is waited for by sleeping and trying again, which starves: with eight writing
processes one got nothing for five seconds. The kernel queues those who wait for a `flock` instead.
The lock is on a file of its own, because closing any handle of a database file would drop the locks
SQLite holds on it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final

from duly.errors import StoreBusy, StoreRefused

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

PAUSE: Final = 0.002


class FileLock:
    """An exclusive lock held through one handle. Its user makes sure that one thread at a time asks.

    A forked child shares the parent's lock through the inherited handle: it must forget this object,
    never release it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._mutex = threading.Lock()
        self._has_waited = False
        self._is_left_behind = False
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StoreRefused(
                f"The lock file {path} cannot be opened: {error.strerror}. "
                "Let the user of this process write to that directory and file."
            ) from error

    def try_acquire(self) -> bool:
        """Take the lock if it is free."""
        try:
            if sys.platform == "win32":
                msvcrt.locking(self._handle, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def acquire(self) -> None:
        """Wait in the kernel's queue for as long as it takes: for a thread that may be left behind."""
        if sys.platform == "win32":
            while not self.try_acquire():
                time.sleep(PAUSE)
        else:
            fcntl.flock(self._handle, fcntl.LOCK_EX)

    def release(self) -> None:
        """Let go of the lock, if it is held."""
        if sys.platform == "win32":
            with suppress(OSError):
                msvcrt.locking(self._handle, msvcrt.LK_UNLCK, 1)
        else:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the handle, which also lets go of the lock if no other process shares the handle."""
        with self._mutex:
            if not self._is_left_behind:
                os.close(self._handle)

    @contextmanager
    def held(self, patience: timedelta) -> Generator[None, None, None]:
        """Hold the lock for a rare piece of work. After a vain wait this object is of no more use."""
        if not self.try_acquire() and not self._acquire_within(patience):
            raise StoreBusy(busy_sentence(self.path, patience))
        try:
            yield
        finally:
            self.release()

    def _acquire_within(self, patience: timedelta) -> bool:
        """Wait in the kernel's queue, which a thread must do because no time-out can end it.

        Trying again and again would never succeed against busy writers: the lock passes from one to the
        next without a gap.
        """
        waiter = threading.Thread(target=self._wait_in_line, name="duly-sqlite-opening", daemon=True)
        waiter.start()
        waiter.join(patience.total_seconds())
        with self._mutex:
            self._is_left_behind = not self._has_waited
            self._has_waited = False
            return not self._is_left_behind

    def _wait_in_line(self) -> None:
        self.acquire()
        with self._mutex:
            self._has_waited = True
            if self._is_left_behind:
                self.release()  # closing does not, where a fork has a copy
                os.close(self._handle)  # nobody wants it any more, and only this thread may say so


def busy_sentence(path: str, patience: timedelta) -> str:
    """Why a writer gave up, and where to look."""
    return (
        f"Another process has been writing for {patience.total_seconds():g} s and holds {path}. "
        f"Look for one that is stopped or stuck: fuser {path}"
    )
