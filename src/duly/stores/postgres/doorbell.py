"""Wake-up calls between processes, by NOTIFY.

A bell may ring for nothing and may be missed: whoever waits also looks on their own from time to time. So
nothing here raises. A ring never belongs to the transaction that caused it, because a NOTIFY makes every
commit in the database wait for its turn: a thread of its own sends it afterwards, at most one in a few
milliseconds, on a connection of its own. Listeners of the same process are woken without the server.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from queue import SimpleQueue
from typing import Final, Literal, TypeVar

import psycopg
from psycopg import sql

from duly.errors import DulyError
from duly.ids import spread
from duly.stores.bells import Bell
from duly.stores.postgres.address import Address
from duly.stores.postgres.message import numbered
from duly.stores.postgres.wire import Wire

T = TypeVar("T")
Wish = Literal["ring", "end"]

log = logging.getLogger("duly.postgres")

PAUSE: Final = 0.005
"""Seconds between two rings."""
PATIENCE: Final = timedelta(seconds=5)
SHORTEST: Final = 0.5
LONGEST: Final = 4.0
"""Seconds before another try to listen, doubled at each failure; up to half of it less, for the crowd."""
FAREWELL: Final = 6.0
"""Seconds that closing waits for a thread which is just connecting to a server that does not answer."""
SEND: Final = b"select set_config('synchronous_commit', 'off', true), pg_notify(%(channel)s, '')"
RING: Final = numbered("duly_ring", SEND)


class Tower:
    """The bells of this process, one connection that listens for them, and one that rings others."""

    def __init__(self, address: Address, channel: str) -> None:
        self._lock = threading.Lock()
        self._bells: weakref.WeakSet[Bell] = weakref.WeakSet()
        self._ringer = Ringer(address, channel)
        self._listener = Listener(address, channel, self.wake_all)

    @property
    def is_listening(self) -> bool:
        """Whether rings of other processes are heard at the moment."""
        return self._listener.is_listening.is_set()

    def bell(self) -> Bell:
        """A bell for whoever asks; the first one starts to listen."""
        bell = Bell(self._remove)
        with self._lock:
            self._bells.add(bell)
        self._listener.start()
        return bell

    def ring(self) -> None:
        """Wake everybody here at once, and the other processes as soon as the ringer comes to it."""
        self.wake_all()
        self._ringer.ring()

    def wake_all(self) -> None:
        with self._lock:
            bells = list(self._bells)
        for bell in bells:
            bell.wake()

    def close(self) -> None:
        """End both threads; what was rung before is still sent."""
        self._ringer.close()
        self._listener.close()

    def _remove(self, bell: Bell) -> None:
        with self._lock:
            self._bells.discard(bell)


class Ringer:
    """A thread that rings the bells of other processes, started by the first ring."""

    def __init__(self, address: Address, channel: str) -> None:
        self._address = address
        self._channel = channel
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wishes: SimpleQueue[Wish] = SimpleQueue()

    def ring(self) -> None:
        with self._lock:
            if self._thread is None:
                self._wishes = SimpleQueue()
                self._thread = _started("duly-postgres-ringer", self._serve, self._wishes)
            if self._wishes.empty():  # else one is still to be sent, and serves for this one too
                self._wishes.put("ring")

    def close(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
            self._wishes.put("end")
        if thread is not None:
            thread.join(FAREWELL)

    def _serve(self, wishes: SimpleQueue[Wish]) -> None:
        wire: Wire | None = None
        while wishes.get() == "ring":
            wire = self._send(wire)
            time.sleep(PAUSE)
        _close(wire)

    def _send(self, wire: Wire | None) -> Wire | None:
        try:
            wire = wire or Wire.open(self._address, PATIENCE)
            _notify(wire, self._channel)
        except (psycopg.Error, DulyError) as error:
            log.debug("a ring was lost: %s", error)
            _close(wire)
            return None
        return wire


class Listener:
    """A thread that hears what other processes ring."""

    def __init__(self, address: Address, channel: str, wake_all: Callable[[], None]) -> None:
        self._address = address
        self._channel = channel
        self._wake_all = wake_all
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._leash: socket.socket | None = None
        self.is_listening = threading.Event()

    def start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._leash, other_end = socket.socketpair()
                self._thread = _started("duly-postgres-listener", self._serve, other_end)

    def close(self) -> None:
        """Closing our end of the leash ends whatever the thread waits for."""
        with self._lock:
            thread, self._thread = self._thread, None
            leash, self._leash = self._leash, None
        if leash is not None:
            leash.close()
        if thread is not None:
            thread.join(FAREWELL)

    def _serve(self, leash: socket.socket) -> None:
        with leash:
            pause = SHORTEST
            while True:
                began = time.monotonic()
                try:
                    self._listen(leash)
                    return
                except (psycopg.Error, DulyError) as error:
                    log.debug("no longer listening: %s", error)
                finally:
                    self.is_listening.clear()
                pause = SHORTEST if time.monotonic() - began > LONGEST else min(LONGEST, pause * 2)
                if _is_let_go(leash, pause * (1 - spread() / 2)):
                    return

    def _listen(self, leash: socket.socket) -> None:
        """Until the connection breaks, which raises, or there is no more sense in it."""
        wire = Wire.open(self._address, PATIENCE)
        try:
            if not wire.is_direct:  # each transaction gets another connection
                log.info("%s is behind a pooler: polling without wake-up calls", self._address.shown)
                return
            wire.perform(f"listen {sql.Identifier(self._channel).as_string(None)}".encode(), None)
            self.is_listening.set()
            self._wake_all()  # what was rung while nobody listened
            self._hear(wire, leash)
        finally:
            _close(wire)

    def _hear(self, wire: Wire, leash: socket.socket) -> None:
        with selectors.DefaultSelector() as selector:
            for end in (leash, wire):
                selector.register(end, selectors.EVENT_READ)
            while all(key.fileobj is not leash for key, _ in selector.select()):
                if _has_heard(wire):
                    self._wake_all()


def _notify(wire: Wire, channel: str) -> None:
    """Prepared and below the driver's cursors, where each statement meets the same server."""
    if wire.is_direct:
        wire.say([(RING, RING.values({"channel": channel}))])
    else:
        wire.perform(SEND, {"channel": channel})


def _has_heard(wire: Wire) -> bool:
    """Asked of the library itself: what the driver has for this takes longer than the way to the server."""
    wire.pgconn.consume_input()
    has_heard = False
    while wire.pgconn.notifies() is not None:
        has_heard = True
    return has_heard


def _is_let_go(leash: socket.socket, seconds: float) -> bool:
    """Whether the other end of the leash was closed, waited for that long."""
    with selectors.DefaultSelector() as selector:
        selector.register(leash, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def _started(name: str, act: Callable[[T], None], given: T) -> threading.Thread:
    thread = threading.Thread(target=act, args=(given,), name=name, daemon=True)
    thread.start()
    return thread


def _close(wire: Wire | None) -> None:
    if wire is not None:
        with suppress(psycopg.Error):
            wire.close()
