"""A doorbell for listeners of one process, for stores that nobody outside of it can see."""

from __future__ import annotations

import threading
from datetime import timedelta


class Bell:
    """Rung by whoever knows it; a ring that nobody waits for is kept for the next who does."""

    def __init__(self) -> None:
        self._rung = threading.Event()

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
        self._rung.set()
