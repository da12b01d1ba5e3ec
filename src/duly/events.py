"""What happened, told to whoever listens: logs, metrics and traces hang on here, never in the engine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

log = logging.getLogger("duly.events")


class Event(NamedTuple):
    """One thing that happened to one run."""

    kind: str
    """started, done, again, retry, defer, release, crash, fail, skip, stop, lost, superseded"""
    task: str
    id: str
    key: str | None
    attempt: int
    epoch: int
    seconds: float | None = None
    """None where the body had not started."""
    detail: str = ""
    queue: str = ""
    wait: float | None = None
    """Seconds from the moment it was due to its start, by the store's clock; of first tries only."""


Listener = Callable[[Event], None]


class Events:
    """The list of listeners. A listener that raises is told about in the log and costs nobody else."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Listen from now on; call what is returned to stop."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @property
    def is_heard(self) -> bool:
        """False when making an event would be work for nobody."""
        return bool(self._listeners)

    def emit(self, event: Event) -> None:
        """Tell every listener."""
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed on %s", event)
