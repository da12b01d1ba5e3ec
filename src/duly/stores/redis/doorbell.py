"""Hearing that something became ready. One connection per process listens for all its bells.

The scripts ring by PUBLISH. A ring may be lost or be for nothing: polling is the truth, this only
makes it quick.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import redis

from duly.ids import spread
from duly.stores.bells import Bell
from duly.stores.redis.wires import AT_ONCE, wait_in_the_kernel

log = logging.getLogger("duly.redis")

CONFIRMED_WITHIN: Final = 2.0
"""Seconds a new bell waits for its line to stand; without it, polling has to do until it does."""
QUIET: Final = 15.0
"""Seconds without a word after which the line is tested; after twice that it counts as cut."""
LONGEST_BACKOFF: Final = 2.0


class Line:
    """The thread that listens. It reconnects by itself, and rings after each gap: something may have come."""

    def __init__(self, client: Any, channel: str) -> None:
        self._client = client
        self._channel = channel
        self._bells: tuple[weakref.ref[Bell], ...] = ()
        """Made anew when one comes or goes, so that ringing takes no lock."""
        self._mutex = threading.Lock()
        self._is_over = threading.Event()
        self._stands = threading.Event()
        self._thread = threading.Thread(target=self._run, name="duly-redis-bell", daemon=True)
        self._thread.start()

    def bell(self) -> Bell:
        """A bell that hears every ring from now on."""
        made = Bell(self._drop)
        with self._mutex:
            self._bells = (*self._others_than(None), weakref.ref(made))
        self._stands.wait(CONFIRMED_WITHIN)
        return made

    def close(self, wake_up: Callable[[], None]) -> None:
        """Stop listening; `wake_up` sends the ring that ends the thread's wait."""
        self._is_over.set()
        wake_up()
        self._thread.join(timeout=1.0)
        with suppress(redis.RedisError, OSError):
            self._client.close()

    def _drop(self, bell: Bell) -> None:
        with self._mutex:
            self._bells = self._others_than(bell)

    def _others_than(self, bell: Bell | None) -> tuple[weakref.ref[Bell], ...]:
        return tuple(known for known in self._bells if known() not in (None, bell))

    def _ring(self) -> None:
        for known in self._bells:
            bell = known()
            if bell is not None:
                bell.wake()

    def _run(self) -> None:
        backoff = 0.05
        while not self._is_over.is_set():
            try:
                self._listen()
                backoff = 0.05
            except (redis.RedisError, OSError) as error:
                log.debug("the doorbell's line is cut, polling goes on: %s", error)
                self._is_over.wait(backoff * (1 - spread() / 2))  # not all processes at the same moment
                backoff = min(LONGEST_BACKOFF, backoff * 2)

    def _listen(self) -> None:
        heard = self._client.pubsub()
        try:
            heard.subscribe(self._channel)
            self._hear(heard)
        finally:
            self._stands.clear()
            with suppress(redis.RedisError, OSError):
                heard.close()

    def _hear(self, heard: Any) -> None:
        spoke = time.monotonic()
        is_tested = False
        # The first word is the driver's to read: it says if we may not listen.
        has_heard: Callable[[], bool] = partial(_has_told, heard)
        while not self._is_over.is_set():
            if has_heard():
                self._ring()  # first of all, and little after it: whoever is rung waits for our interpreter
                spoke, is_tested = time.monotonic(), False
                if not self._stands.is_set():
                    self._stands.set()
                    has_heard = _ear_at(heard)
            elif time.monotonic() - spoke > QUIET * 0.9:
                if is_tested:
                    raise redis.ConnectionError("no answer on the doorbell's line")
                heard.ping()
                spoke, is_tested = time.monotonic(), True


def _has_told(heard: Any) -> bool:
    return heard.get_message(timeout=QUIET) is not None


def _ear_at(heard: Any) -> Callable[[], bool]:
    """Listens at a plain socket itself: whatever is said is a ring, and need not be read."""
    found = heard.connection._sock
    if type(found) is not socket.socket:
        return partial(_has_told, heard)
    found.settimeout(QUIET)
    wait_in_the_kernel(found, QUIET)
    return partial(_is_spoken_at, found)


def _is_spoken_at(found: socket.socket) -> bool:
    try:
        said = found.recv(AT_ONCE)
    except (TimeoutError, BlockingIOError):  # the latter where the kernel waits
        return False
    if not said:
        raise redis.ConnectionError("the server has hung up")
    return True
