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
Wants = Callable[[str], bool]
"""Whether events of a kind are to be told."""


def _everything(_: str) -> bool:
    return True


class Events:
    """The list of listeners. A listener that raises is told about in the log and costs nobody else."""

    def __init__(self) -> None:
        self._listeners: list[tuple[Listener, Wants]] = []

    def subscribe(self, listener: Listener, *, wants: Wants | None = None) -> Callable[[], None]:
        """Listen from now on; call what is returned to stop.

        `wants` tells of a kind whether to hear of it now: a worker makes no event that nobody wants, and
        those of runs that are done are most of its work.
        """
        entry = listener, wants or _everything
        self._listeners.append(entry)
        return lambda: self._listeners.remove(entry)

    def hears(self, kind: str) -> bool:
        """False when making an event of this kind would be work for nobody."""
        try:
            return any([wants(kind) for _, wants in self._listeners])  # noqa: C419  a generator costs more
        except Exception:  # that costs nobody else: made, the event tells in the log whose fault it is
            return True

    def emit(self, event: Event) -> None:
        """Tell every listener."""
        for listener, wants in list(self._listeners):
            try:
                if wants(event.kind):
                    listener(event)
            except Exception:
                log.exception("a listener failed on %s", event)
