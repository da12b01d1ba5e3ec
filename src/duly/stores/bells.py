"""The bell that a listener of this process waits at, whoever rings it: the store, or its line to others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta


def _stay(_bell: Bell) -> None:
    """Nobody keeps a list of it from which it had to be taken."""


class Bell:
    """Rung by whoever knows it; a ring that nobody waits for is kept for the next who does."""

    def __init__(self, leave: Callable[[Bell], None] = _stay) -> None:
        self._rung = threading.Event()
        self._leave = leave

    def wait(self, timeout: timedelta) -> bool:
        """Whether it rang, now or since the last wait."""
        has_rung = self._rung.wait(timeout.total_seconds())
        if has_rung:  # else one that comes at this very moment would be lost
            self._rung.clear()
        return has_rung

    def wake(self) -> None:
        """Ring it."""
        self._rung.set()

    def close(self) -> None:
        """Nobody is to wait here any longer."""
        self._leave(self)
        self._rung.set()
