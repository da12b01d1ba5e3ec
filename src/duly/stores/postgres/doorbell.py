"""Wake-up calls between processes, by NOTIFY.

A bell may ring for nothing and may be missed: whoever waits also looks on their own from time to time. So
nothing here raises. A ring never belongs to the transaction that caused it, because a NOTIFY makes every
commit in the database wait for its turn: a thread of its own sends it afterwards, at most one in a few
milliseconds, on a connection of its own. Listeners of the same process are woken without the server.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

import psycopg
from psycopg import sql

from duly.errors import DulyError
from duly.stores.postgres.address import Address
from duly.stores.postgres.wire import Wire

log = logging.getLogger("duly.postgres")

PAUSE: Final = 0.005
"""Seconds between two rings."""
PATIENCE: Final = timedelta(seconds=5)
SHORTEST: Final = 0.5
LONGEST: Final = 30.0
"""Seconds before another try to listen, doubled at each failure."""
LOOK: Final = 0.5
"""How long a listener stays in one wait, so that it notices being closed."""
SEND: Final = b"select set_config('synchronous_commit', 'off', true), pg_notify(%s, '')"


class Bell:
    """One listener's bell."""

    def __init__(self, leave: Callable[[Bell], None]) -> None:
        self._rung = threading.Event()
        self._leave = leave

    def wait(self, timeout: timedelta) -> bool:
        has_rung = self._rung.wait(timeout.total_seconds())
        self._rung.clear()
        return has_rung

    def wake(self) -> None:
        self._rung.set()

    def close(self) -> None:
        self._rung.set()
        self._leave(self)


class Tower:
    """The bells of this process, one connection that listens for them, and one that rings others."""

    def __init__(self, address: Address, channel: str) -> None:
        self._address = address
        self._channel = channel
        self._lock = threading.Lock()
        self._bells: weakref.WeakSet[Bell] = weakref.WeakSet()
        self._is_over = threading.Event()
        self._is_wanted = threading.Event()
        self._ringer: threading.Thread | None = None
        self._listener: threading.Thread | None = None
        self.is_listening = threading.Event()

    def bell(self) -> Bell:
        """A bell for whoever asks; the first one starts to listen."""
        bell = Bell(self._remove)
        with self._lock:
            self._bells.add(bell)
            if self._listener is None:
                self._listener = self._start("duly-postgres-listener", self._listen)
        return bell

    def ring(self) -> None:
        """Wake everybody here at once, and the other processes as soon as the ringer comes to it."""
        self.wake_all()
        with self._lock:
            if self._ringer is None:
                self._ringer = self._start("duly-postgres-ringer", self._send)
        self._is_wanted.set()

    def wake_all(self) -> None:
        for bell in list(self._bells):
            bell.wake()

    def close(self) -> None:
        """End both threads."""
        self._is_over.set()
        self._is_wanted.set()
        with self._lock:
            threads = [thread for thread in (self._ringer, self._listener) if thread is not None]
            self._ringer = self._listener = None
        for thread in threads:
            thread.join(LOOK + PATIENCE.total_seconds())
        self._is_over = threading.Event()
        self._is_wanted = threading.Event()

    def _start(self, name: str, act: Callable[[threading.Event], None]) -> threading.Thread:
        thread = threading.Thread(target=act, args=(self._is_over,), name=name, daemon=True)
        thread.start()
        return thread

    def _remove(self, bell: Bell) -> None:
        with self._lock:
            self._bells.discard(bell)

    # ringing

    def _send(self, is_over: threading.Event) -> None:
        wire: Wire | None = None
        wanted = self._is_wanted
        while True:
            wanted.wait()
            if is_over.is_set():
                break
            wanted.clear()  # before sending: a ring that comes meanwhile gets a message of its own
            wire = self._send_once(wire)
            is_over.wait(PAUSE)
        _close(wire)

    def _send_once(self, wire: Wire | None) -> Wire | None:
        try:
            wire = wire or Wire.open(self._address, PATIENCE)
            wire.perform(SEND, (self._channel,))
        except (psycopg.Error, DulyError) as error:
            log.debug("a ring was lost: %s", error)
            _close(wire)
            return None
        return wire

    # listening

    def _listen(self, is_over: threading.Event) -> None:
        pause = SHORTEST
        while not is_over.is_set():
            began = time.monotonic()
            try:
                if not self._listen_until_lost(is_over):
                    return
            except (psycopg.Error, DulyError) as error:
                log.debug("no longer listening: %s", error)
            finally:
                self.is_listening.clear()
            pause = SHORTEST if time.monotonic() - began > LONGEST else min(LONGEST, pause * 2)
            is_over.wait(pause)

    def _listen_until_lost(self, is_over: threading.Event) -> bool:
        """False where listening makes no sense: a pooler gives each transaction another connection."""
        wire = Wire.open(self._address, PATIENCE)
        try:
            if not wire.is_direct:
                log.info("%s is behind a pooler: polling without wake-up calls", self._address.shown)
                return False
            wire.perform(f"listen {sql.Identifier(self._channel).as_string(None)}".encode(), None)
            self.is_listening.set()
            self.wake_all()  # what was rung while nobody listened
            wire.patience = 0.0
            while not is_over.is_set():
                if list(wire.notifies(timeout=LOOK, stop_after=1)):
                    self.wake_all()
            return True
        finally:
            _close(wire)


def _close(wire: Wire | None) -> None:
    if wire is not None:
        with suppress(psycopg.Error):
            wire.close()
