"""One thread that watches any number of deadlines.

Only what runs now has one, so they are few: a dictionary that is looked through when the earliest comes due
is cheaper for the many bodies that end in time than a heap they would have to be taken out of.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Generic, TypeVar

K = TypeVar("K")
LOG = logging.getLogger("duly.executors")


class Deadlines(Generic[K]):
    """Calls `expire(key)` once for each key that was begun and not ended in time."""

    def __init__(self, expire: Callable[[K], object]) -> None:
        self._expire = expire
        self._moments: dict[K, float] = {}
        self._changed = threading.Condition()
        self._wakes_at = math.inf
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._is_closed = False

    def begin(self, key: K, after: timedelta) -> None:
        """Let the time of this key run from now."""
        moment = time.monotonic() + after.total_seconds()
        with self._changed:
            if self._failure is not None:
                raise RuntimeError(f"The thread that watches deadlines died: {self._failure!r}.")
            self._moments[key] = moment
            if self._thread is None:
                self._start()
            elif moment < self._wakes_at:
                self._changed.notify()

    def end(self, key: K) -> None:
        """It came in time, or it does not matter any more."""
        with self._changed:
            self._moments.pop(key, None)

    def close(self) -> None:
        """Let the thread end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="duly-deadlines", daemon=True)
        thread.start()
        self._thread = thread  # not before: one that could not be started watches nothing

    def _run(self) -> None:
        try:
            while not self._is_closed:
                for key in self._wait():
                    self._expire(key)
        except BaseException as failure:
            LOG.critical("The thread that watches deadlines died.", exc_info=failure)
            self._failure = failure

    def _wait(self) -> list[K]:
        """Wait for the earliest deadline or an earlier one; return what is due, which is then forgotten."""
        with self._changed:
            self._wakes_at = min(self._moments.values(), default=math.inf)
            left = self._wakes_at - time.monotonic()
            if left > 0 and not self._is_closed:
                self._changed.wait(None if left == math.inf else left)
            now = time.monotonic()
            due = [key for key, moment in self._moments.items() if moment <= now]
            for key in due:
                del self._moments[key]
            return due
