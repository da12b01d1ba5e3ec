"""Who has signed out. A session is a text that its bearer may keep, so its early end must be written down.

In the store, for as long as the text would be good: every process that reads sessions reads this too.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from duly.dashboard.door import SESSION, Role, Session
from duly.dashboard.keeping import Kept
from duly.errors import StoreError

if TYPE_CHECKING:
    from duly.app import App

log = logging.getLogger("duly.dashboard")

KIND: Final = "dashboard.departures"
"""With the role: viewers who sign in and out all day must not push an operator's departure off the page."""
MOST: Final = 5_000
"""Read at once: nobody signs out as often within one session's time."""


class Departures:
    """Sessions that ended before their time."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._here = {role: deque[str](maxlen=MOST) for role in Role}
        self._everywhere = {role: self._kept(role) for role in Role}

    def _kept(self, role: Role) -> Kept[frozenset[str]]:
        return Kept(lambda: self._read(role), self._app.clock.boot)

    def has(self, session: Session) -> bool:
        """Whether it ended: at once for those that ended here, else a moment later."""
        role = session.visitor.role
        return session.id in self._here[role] or session.id in self._everywhere[role].get()

    def note(self, session: Session) -> None:
        """It is over. Where the store cannot be told it is over here, and a line says why not elsewhere."""
        role, store = session.visitor.role, self._app.store
        self._here[role].append(session.id)
        try:
            store.run(store.jot(f"{KIND}.{role}", session.id, keep=SESSION))
        except StoreError as error:
            log.warning("a session that was signed out of may go on in other processes: %s", error)
        self._everywhere[role].forget()

    def _read(self, role: Role) -> frozenset[str]:
        store, since = self._app.store, self._app.clock.now() - SESSION
        entries = store.run(store.diary(f"{KIND}.{role}", limit=MOST, since=since))
        return frozenset(entry.text for entry in entries)
