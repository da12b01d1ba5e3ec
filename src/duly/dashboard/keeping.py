"""Answers that serve everybody for a moment, so that three browsers that watch cost as much as one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Final, Generic, TypeVar

from duly.errors import DulyError

T = TypeVar("T")

FRESH: Final = timedelta(seconds=2)
"""How old a count may be."""
TWENTIETH, HUNDREDTH = 20, 100
"""The part of the time that may be spent on looking: what is finished is counted seldom where it is much."""

log = logging.getLogger("duly.dashboard")


class Kept(Generic[T]):
    """An answer that serves everybody for a moment."""

    def __init__(self, ask: Callable[[], T], boot: Callable[[], float], part: int = TWENTIETH) -> None:
        self._ask = ask
        self._boot = boot
        self._part = part
        self._lock = threading.Lock()
        self._kept: tuple[float, T] | None = None
        """Until when it serves, and the answer."""

    def get(self) -> T:
        """The answer, asked for anew when it is too old; whoever comes meanwhile waits for the same one.

        One that took long to find serves longer, so looking takes at most that part of the time.
        """
        with self._lock:
            begun = self._boot()
            if self._kept is None or begun >= self._kept[0]:
                answer = self._ask()
                took = self._boot() - begun
                self._kept = begun + max(FRESH.total_seconds(), self._part * took), answer
            return self._kept[1]

    def forget(self) -> None:
        """Something was changed: the next look is a new one."""
        with self._lock:
            self._kept = None


class Aside(Generic[T]):
    """An answer that takes long, found on a thread of its own: nobody waits for it who need not."""

    def __init__(self, ask: Callable[[], T], boot: Callable[[], float]) -> None:
        self._kept = Kept(ask, boot, HUNDREDTH)
        self._lock = threading.Lock()
        self._search: threading.Thread | None = None
        self._last: T | None = None

    def last(self) -> T | None:
        """What was found last, or None; whether that is still good is looked up meanwhile."""
        with self._lock:
            if self._search is None or not self._search.is_alive():
                self._search = threading.Thread(target=self._look, name="duly-dashboard-count", daemon=True)
                self._search.start()
        return self._last

    def get(self) -> T:
        """What is found now, however long that takes; raises what `ask` raises."""
        self._last = found = self._kept.get()
        return found

    def forget(self) -> None:
        """Something was changed."""
        self._kept.forget()

    def _look(self) -> None:
        try:
            self.get()
        except DulyError as error:  # the next page asks again, and has the store's words for itself
            log.warning("Finished jobs could not be counted: %s", error)
