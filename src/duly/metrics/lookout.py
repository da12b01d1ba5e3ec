"""What the store says of itself, seldom asked: however often metrics are read, and however long it takes.

A look costs the store a count of its jobs. So it is taken at most every ten seconds, and where it takes long,
so rarely that it keeps the store busy for one part in fifty. A store that is away keeps nobody waiting.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from duly.app import App
from duly.errors import StoreError
from duly.outbox.contract import Backlog
from duly.stores.contract import Attendance, Census, Switch

log = logging.getLogger("duly.metrics")

EVERY: Final = 10.0
SHARE: Final = 50
PATIENCE: Final = 2.0
"""Seconds a reader waits for a look; then it gets the last one."""
STALE: Final = 120.0
"""Seconds after which the last look is no longer told."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen."""

    census: Census
    workers: list[Attendance]
    switches: list[Switch]
    backlog: Backlog | None
    now: datetime
    at: float
    """Monotonic."""


class Lookout:
    """Looks at one store, for everybody in this process who reads metrics."""

    def __init__(self, app: App, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._looking: threading.Event | None = None
        self._sight: Sight | None = None
        self._next_at = 0.0
        self.is_up = False
        """The last look succeeded."""

    def look(self) -> Sight | None:
        """The newest look, at most as old as it is allowed to be; None if there is none worth telling."""
        if (looking := self._begin()) is not None and not looking.wait(PATIENCE):
            self.is_up = False
        sight = self._sight
        return sight if sight is not None and self.age_of(sight) < STALE else None

    def age_of(self, sight: Sight) -> float:
        """Seconds since it was taken."""
        return self._monotonic() - sight.at

    def _begin(self) -> threading.Event | None:
        """Look in a thread, one at a time: who waits for an answer can stop waiting."""
        with self._lock:
            if self._looking is None and self._monotonic() >= self._next_at:
                self._looking = threading.Event()
                threading.Thread(target=self._run, args=(self._looking,), daemon=True).start()
            return self._looking

    def _run(self, looking: threading.Event) -> None:
        began = self._monotonic()
        try:
            self._sight, self.is_up = self._taken(), True
        except StoreError as error:
            self.is_up = False
            log.debug("the store cannot be looked at: %s", error)
        except Exception:
            self.is_up = False
            log.exception("a look at the store failed")
        finally:
            took = self._monotonic() - began
            with self._lock:
                self._looking, self._next_at = None, began + took + max(EVERY, took * SHARE)
            looking.set()

    def _taken(self) -> Sight:
        store, box = self._app.store, self._app.outbox
        return Sight(
            census=store.run(store.census()),
            workers=store.run(store.workers()),
            switches=store.run(store.switches()),
            backlog=None if box is None else box.run(box.backlog()),
            now=self._app.clock.now(),
            at=self._monotonic(),
        )
