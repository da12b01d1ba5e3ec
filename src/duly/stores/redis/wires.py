"""Connections that stay with the store from one call to the next.

On the driver's own way a command passes a pool, retries and observers: a fifth of the processor time of an
enqueue. A script needs none of them. It is never sent twice, and whether the server has hung up in the
meantime is looked at before, as the pool does it.
"""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import Any

from redis import exceptions


class Wires:
    """So many connections at most; whoever finds all of them in use waits for one."""

    def __init__(self, pool: Any, most: int, patience: float) -> None:
        self._pool = pool
        self._patience = patience
        self._unmade = threading.Semaphore(most)
        self._idle: SimpleQueue[Any] = SimpleQueue()

    def ask(self, *words: Any) -> Any:
        """One command and its answer."""
        wire = self._take()
        try:
            if _is_cut(wire):
                wire.disconnect()  # and sending connects again
            wire.send_command(*words)
            return wire.read_response()
        except exceptions.ResponseError:  # an answer too: the wire is as good as before
            raise
        except BaseException:  # half a conversation: nobody must hear the rest of it
            wire.disconnect()
            raise
        finally:
            self._idle.put(wire)

    def _take(self) -> Any:
        try:
            return self._idle.get_nowait()
        except Empty:
            return self._another()

    def _another(self) -> Any:
        if self._unmade.acquire(blocking=False):
            return self._pool.make_connection()
        try:
            return self._idle.get(timeout=self._patience)
        except Empty:
            raise exceptions.ConnectionError("No connection available.") from None


def _is_cut(wire: Any) -> bool:
    """Whether the server has hung up, or has said something that nobody asked for."""
    if wire._sock is None:  # sending connects, and fails once if nobody is there
        return False
    try:
        return bool(wire.can_read(timeout=0))
    except (exceptions.ConnectionError, OSError):
        return True
