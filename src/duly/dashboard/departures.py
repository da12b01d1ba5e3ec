"""Who has signed out. A session is a text that its bearer may keep, so its early end must be written down.

In the store, for as long as the text would be good: every process that reads sessions reads this too.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from duly.dashboard.door import SESSION
from duly.dashboard.keeping import Kept
from duly.errors import StoreError

if TYPE_CHECKING:
    from duly.app import App

log = logging.getLogger("duly.dashboard")

KIND: Final = "dashboard.departures"
MOST: Final = 5_000
"""Read at once: nobody signs out as often within one session's time."""


class Departures:
    """Sessions that ended before their time."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._here: deque[str] = deque(maxlen=MOST)
        self._everywhere: Kept[frozenset[str]] = Kept(self._read, app.clock.boot)

    def has(self, session: str) -> bool:
        """Whether it ended: at once for those that ended here, else a moment later."""
        return session in self._here or session in self._everywhere.get()

    def note(self, session: str) -> None:
        """It is over. Where the store cannot be told it is over here, and a line says why not elsewhere."""
        self._here.append(session)
        store = self._app.store
        try:
            store.run(store.jot(KIND, session, keep=SESSION))
        except StoreError as error:
            log.warning("a session that was signed out of may go on in other processes: %s", error)
        self._everywhere.forget()

    def _read(self) -> frozenset[str]:
        store, since = self._app.store, self._app.clock.now() - SESSION
        return frozenset(entry.text for entry in store.run(store.diary(KIND, limit=MOST, since=since)))
