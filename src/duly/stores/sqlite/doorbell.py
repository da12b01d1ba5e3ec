"""Waking the workers of other processes within a millisecond of a commit.

Each listener binds a datagram socket in a directory beside the file; ringing sends a byte to every
socket found there. A ring may be lost or be for nothing: polling is the truth, this only makes it quick.
A listener that was killed leaves its socket behind: whoever comes to ring, listen or leave takes it away.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import select
import socket
import sqlite3
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import Final

from duly.ids import new_nonce

HAS_SOCKETS: Final = sys.platform != "win32" and hasattr(socket, "AF_UNIX")
LONGEST_FOLDER: Final = 76
"""A socket's path has room for 103 bytes on some systems; its name takes up to 26 of them."""
GAP: Final = 0.001
"""Seconds between two rings of one process: what comes in between shares the second."""
SUFFIX: Final = ".sock"
TRIES: Final = 100
"""Attempts to bind while others keep taking the empty directory away."""
NEIGHBOURS: Final = 100
"""At most so many directories of other files are looked at when a listener comes."""
PREFIX: Final = "duly-"
_NEIGHBOUR: Final = re.compile(r"duly-[0-9a-f]{16}")
IDLE: Final = 10.0
POLL: Final = 0.005


def bells_of(path: str) -> str:
    """The directory of the sockets: beside the file, or a temporary one if that path is too long."""
    beside = path + "-duly.bells"
    if len(os.fsencode(beside)) <= LONGEST_FOLDER:
        return beside
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return os.path.join(tempfile.gettempdir(), f"{PREFIX}{name}")


def sweep(folder: str) -> None:
    """Take away sockets that nobody listens at, and the directory if that leaves it empty."""
    with suppress(OSError):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if name.endswith(SUFFIX) and _is_dead(path):
                with suppress(OSError):
                    os.unlink(path)
        os.rmdir(folder)  # fails, as it should, while others listen


def sweep_neighbours(place: str, limit: int = NEIGHBOURS) -> None:
    """Do so for files that may never be opened again: their directories lie where nobody else would look."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in islice(filter(_is_ours, entries), limit):
            sweep(entry.path)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    if not _NEIGHBOUR.fullmatch(entry.name):
        return False
    about = entry.stat(follow_symlinks=False)
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()


def _is_dead(path: str) -> bool:
    """Whether no process holds that socket; asking does not ring."""
    try:
        with _datagram_socket() as asking:
            asking.connect(path)
    except ConnectionRefusedError:
        return True
    except OSError:
        pass  # gone meanwhile, or not ours to judge
    return False


class Ringer:
    """Rings for one process, at most about once a millisecond. Never raises: the commit has happened."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._mutex = threading.Lock()
        self._last = -math.inf
        self._unheard_until = -math.inf
        """Until when it is believed that nobody listens."""
        self._arrivals = 0
        """Of listeners in this process."""
        self._owed = threading.Event()
        self._thread: threading.Thread | None = None

    def ring(self) -> None:
        """Ring now, or a moment later together with others."""
        now = time.monotonic()
        if not HAS_SOCKETS or now < self._unheard_until or not self._is_heard(now):
            return
        with self._mutex:
            now = time.monotonic()
            if now - self._last < GAP:
                self._owe()
                return
            self._last = now
        self._send()

    def _is_heard(self, now: float) -> bool:
        """Whether anybody listens, or has died listening. Who comes later looks at the file first.

        Without this a burst of single requests kept a thread awake that rang for nobody: a tenth of each.
        That nobody does is believed for a moment: among eight threads each look made them change places. So
        the first listener may miss what is stored in the moment it comes, until it looks by itself.
        """
        arrivals = self._arrivals
        if os.access(self._folder, os.F_OK):
            return True
        with self._mutex:
            if self._arrivals == arrivals:
                self._unheard_until = now + GAP
        return False

    def look_again(self) -> None:
        """Somebody of this process listens from now on."""
        with self._mutex:
            self._arrivals += 1
            self._unheard_until = -math.inf

    def _owe(self) -> None:
        """A dropped ring could be the one a worker needs, so the last of a burst is sent late instead."""
        if self._owed.is_set():
            return  # by the thread that has yet to ring, which takes this one along
        self._owed.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._ring_late, name="duly-sqlite-ringer", daemon=True)
            with suppress(RuntimeError):  # the interpreter is ending: polling will find the job
                self._thread.start()

    def _ring_late(self) -> None:
        while self._is_owed():
            time.sleep(GAP)
            self._owed.clear()
            with self._mutex:
                self._last = time.monotonic()
            self._send()

    def _is_owed(self) -> bool:
        if self._owed.wait(IDLE):
            return True
        with self._mutex:
            if self._owed.is_set():
                return True
            self._thread = None
            return False

    def _send(self) -> None:
        with suppress(OSError):  # nobody has ever listened, or no socket is to be had
            sockets = [name for name in os.listdir(self._folder) if name.endswith(SUFFIX)]
            if sockets and not self._nudge_all(sockets):
                sweep(self._folder)

    def _nudge_all(self, sockets: list[str]) -> bool:
        """False where a listener died without a goodbye."""
        with _datagram_socket() as sender:
            nudged = [_nudge(sender, os.path.join(self._folder, name)) for name in sockets]
        return all(nudged)


def _nudge(sender: socket.socket, path: str) -> bool:
    """False where a listener died without a goodbye."""
    try:
        sender.sendto(b"!", path)
    except ConnectionRefusedError:
        return False
    except OSError:
        pass  # full: rung already; gone or foreign: not ours to wake
    return True


def _datagram_socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.settimeout(0)
    return made


class SocketBell:
    """One listener. The socket's buffer remembers a ring between two waits."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._pid = os.getpid()
        self._path = os.path.join(folder, f"{self._pid}-{new_nonce()[:12]}{SUFFIX}")
        self._in_use = threading.Lock()
        self._is_closed = False
        self._near, self._far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._near.settimeout(0)
        self._far.settimeout(0)
        try:
            self._ear = self._bind()
        except OSError:
            self._near.close()
            self._far.close()
            raise
        sweep(folder)  # ours is bound, so it stays
        if _NEIGHBOUR.fullmatch(os.path.basename(folder)):
            sweep_neighbours(os.path.dirname(folder))

    def wait(self, timeout: timedelta) -> bool:
        """Sleep until rung or woken, at most so long; whether it was for a reason."""
        with self._in_use:
            if self._is_closed:
                return False
            heard = self._listen(timeout)
            if not heard and not os.path.exists(self._path):
                self._rebind()  # somebody swept the directory
            return heard

    def wake(self) -> None:
        """Ring this one listener, from any thread."""
        with suppress(OSError):
            self._far.send(b"!")

    def close(self) -> None:
        """End a wait in progress and take the socket away."""
        self._is_closed = True
        self.wake()
        with self._in_use:
            for one in (self._ear, self._near, self._far):
                one.close()
        if self._pid == os.getpid():  # a forked child has no say over its parent's socket
            with suppress(OSError):
                os.unlink(self._path)
            sweep(self._folder)

    def _listen(self, timeout: timedelta) -> bool:
        poll = select.poll()
        poll.register(self._ear, select.POLLIN)
        poll.register(self._near, select.POLLIN)
        heard = poll.poll(max(0, math.ceil(timeout.total_seconds() * 1000)))
        for one in (self._ear, self._near):
            _drain(one)
        return bool(heard)

    def _bind(self) -> socket.socket:
        ear = _datagram_socket()
        try:
            for attempt in range(1, TRIES + 1):
                try:
                    _make_folder(self._folder)
                    ear.bind(self._path)
                    break
                except FileNotFoundError:  # somebody took the empty directory away just now
                    if attempt == TRIES:
                        raise
        except OSError:
            ear.close()
            raise
        return ear

    def _rebind(self) -> None:
        with suppress(OSError):
            fresh = self._bind()
            self._ear.close()
            self._ear = fresh


def _make_folder(folder: str) -> None:
    is_shared_place = folder.startswith(tempfile.gettempdir() + os.sep)
    with suppress(FileExistsError):
        os.mkdir(folder, mode=0o700 if is_shared_place else 0o777)
    if is_shared_place and os.stat(folder, follow_symlinks=False).st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")


def _drain(one: socket.socket) -> None:
    with suppress(BlockingIOError):
        while True:
            one.recv(16)


class PollingBell:
    """Where sockets cannot be had: watch SQLite's counter of changes, which takes some 10 µs a look."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._woken = threading.Event()
        self._in_use = threading.Lock()
        self._is_closed = False
        self._seen = self._version()

    def wait(self, timeout: timedelta) -> bool:
        until = time.monotonic() + timeout.total_seconds()
        while not self._is_closed:
            if self._woken.is_set() or self._has_changed():
                self._woken.clear()
                return True
            remaining = until - time.monotonic()
            if remaining <= 0:
                return False
            self._woken.wait(min(POLL, remaining))
        return False

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self._is_closed = True
        self.wake()
        self.rest()

    def rest(self) -> None:
        """Close the handle; the next look opens another, and counts as a ring."""
        with self._in_use:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _has_changed(self) -> bool:
        version = self._version()
        if version == self._seen:
            return False
        self._seen = version
        return True

    def _version(self) -> int:
        with suppress(sqlite3.Error), self._in_use:
            if self._is_closed:
                return 0
            self._connection = self._connection or self._connect()
            version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
            return version
        return -1
