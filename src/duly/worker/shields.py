"""How to keep interrupts out for a moment, wherever they come from: in threads of the pool, in a child."""

from __future__ import annotations

import threading
from collections.abc import Callable

from duly.executors import threads
from duly.executors.interrupts import INTERRUPTS
from duly.shield import shielded


class ThreadShield:
    """For bodies in threads of the pool; elsewhere nothing strikes, and nothing is kept out."""

    def __call__(self, act: Callable[[], None]) -> None:
        """Do it; an interrupt that comes meanwhile is raised afterwards."""
        shielded(act)

    @property
    def is_struck(self) -> bool:
        """An interrupt waits for the end of what is shielded."""
        return threads.is_interrupt_waiting()


class ChildShield:
    """For the body in a child's main thread; a thread of the body's own needs none."""

    def __call__(self, act: Callable[[], None]) -> None:
        """Do it; a wish that comes meanwhile is fulfilled afterwards."""
        if self._is_needed:
            INTERRUPTS.shielded(act)
        else:
            act()

    @property
    def is_struck(self) -> bool:
        """A wish waits for the end of what is shielded."""
        return self._is_needed and INTERRUPTS.has_wish

    @property
    def _is_needed(self) -> bool:
        return threading.current_thread() is threading.main_thread()
