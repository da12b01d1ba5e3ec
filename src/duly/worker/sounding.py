"""How deep the queues are, written down for the charts by one of the workers.

Whichever comes first in a half minute looks; the others see that somebody did. What is finished is not
counted, so a look costs what waits, not what is stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from duly.ids import spread
from duly.pulse import DEPTH, KEPT, packed_depth
from duly.stores.contract import Store

EVERY: Final = 30.0
"""Seconds between two looks."""
LATELY: Final = timedelta(seconds=25)


class Sounding:
    """A worker's part in it."""

    def __init__(
        self,
        store: Store,
        now: Callable[[], datetime | None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._now = now
        """The store's clock; None before it has told its time."""
        self._monotonic = monotonic
        self.due = monotonic() + EVERY * spread()

    def take(self) -> None:
        """Look, unless somebody did."""
        self.due = self._monotonic() + EVERY * (0.9 + spread() / 5)
        now, store = self._now(), self._store
        if now is None or store.run(store.diary(DEPTH, limit=1, since=now - LATELY)):
            return
        census = store.run(store.census(with_finished=False))
        store.run(store.jot(DEPTH, packed_depth(census, now), keep=KEPT))
