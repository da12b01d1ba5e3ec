"""Company: those who came along the last time, and are likely to come again.

Threads that store one request after another come back some 30 µs apart once their commit is done. The
first of them would go alone, and keep the file for nearly as long as all of them together: every other commit
carried one request, and eight threads stored a fifth less. So whoever comes first waits for the others, while
they come.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sized
from typing import Final

GAP: Final = 0.0002
"""Seconds within which the next one comes, or nobody is waited for any more."""


class Company:
    """Of one queue, which is touched under one mutex."""

    def __init__(self, queue: Sized, mutex: threading.Lock) -> None:
        self._queue = queue
        self._mutex = mutex
        self._amount = 0
        self._until = 0.0
        self._gate: threading.Lock | None = None
        """Where the first one waits for the last."""

    @property
    def is_near(self) -> bool:
        """Whether several were answered together just now, so that others will come soon after this one."""
        return self._amount > 1 and time.monotonic() < self._until

    def part(self, amount: int) -> None:
        """So many are about to be answered together."""
        self._amount, self._until = amount, time.monotonic() + GAP

    def wait(self) -> None:
        """Until as many are queued as were answered the last time, or nobody has come for a moment."""
        if not self.is_near:
            return
        with self._mutex:
            came = len(self._queue)
            if came >= self._amount:
                return
            self._gate = gate = threading.Lock()
            gate.acquire()
        while not gate.acquire(timeout=GAP):
            with self._mutex:
                if len(self._queue) == came:
                    self._gate = None
                    return
                came = len(self._queue)

    def join(self) -> None:
        """One more is queued; under the mutex."""
        if self._gate is not None and len(self._queue) >= self._amount:
            gate, self._gate = self._gate, None
            gate.release()
