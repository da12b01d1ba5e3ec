"""Connections that stay with the store from one call to the next.

On the driver's own way a command passes a pool, retries and observers, and its answer more of them: a third
of the processor time of an enqueue. A script needs none of them. It is never sent twice, and whether the
server has hung up in the meantime is looked at before, as the pool does it. So the driver connects, and a
plain socket is spoken to and read from directly; where there is none, or no hiredis, the driver's way serves.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from redis import exceptions

AT_ONCE: Final = 65536
"""Bytes read with one call."""


def _found_reader() -> Any:
    try:
        from hiredis import Reader
    except ImportError:  # the driver does without it, and so do we
        return None
    return Reader


READER: Final = _found_reader()


class Spoken(NamedTuple):
    """Words as they go over the wire. To make that of the same ones at each call took 8 µs of an enqueue."""

    words: int
    text: bytes


def spoken(words: Iterable[str | bytes | int]) -> Spoken:
    """Each with its length in front."""
    encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return Spoken(len(encoded), b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded]))


def command_of(words: Iterable[Spoken | str | bytes | int]) -> bytes:
    """One command."""
    parts = [word if isinstance(word, Spoken) else spoken((word,)) for word in words]
    return b"*%d\r\n%b" % (sum([part.words for part in parts]), b"".join([part.text for part in parts]))


class Wires:
    """So many connections at most; whoever finds all of them in use waits for one."""

    def __init__(self, pool: Any, most: int, patience: float) -> None:
        self._pool = pool
        self._patience = patience
        self._unmade = threading.Semaphore(most)
        self._idle: SimpleQueue[Wire] = SimpleQueue()

    def ask(self, *words: Spoken | str | bytes | int, meanwhile: Callable[[], object] | None = None) -> Any:
        """One command and its answer."""
        command = command_of(words)
        wire = self._take()
        try:
            return wire.ask(command, meanwhile)
        except exceptions.ResponseError:  # an answer too: the wire is as good as before
            raise
        except BaseException:  # half a conversation: nobody must hear the rest of it
            wire.cut()
            raise
        finally:
            self._idle.put(wire)

    def _take(self) -> Wire:
        try:
            return self._idle.get_nowait()
        except Empty:
            return self._another()

    def _another(self) -> Wire:
        if self._unmade.acquire(blocking=False):
            return Wire(self._pool.make_connection(), self._patience)
        try:
            return self._idle.get(timeout=self._patience)
        except Empty:
            raise exceptions.ConnectionError("No connection available.") from None


class Wire:
    """One of them."""

    def __init__(self, made: Any, patience: float) -> None:
        self._made = made
        self._patience = patience
        self._socket: Any = None
        """The driver's; it opens another after it was told to hang up."""
        self._reader: Any = None
        """Where we read from it ourselves."""
        self._look: Any = None

    def ask(self, command: bytes, meanwhile: Callable[[], object] | None = None) -> Any:
        """Send, and wait for the answer; an error that the server answers is raised."""
        if self._socket is None or self._made._sock is not self._socket or self._is_cut():
            self.cut()
            self._connect()
        if self._reader is None:
            self._made.send_packed_command([command])
            return self._made.read_response()
        return self._talk(command, meanwhile)

    def cut(self) -> None:
        """Hang up; the next command connects again."""
        self._made.disconnect()
        self._socket = self._reader = self._look = None

    def _is_cut(self) -> bool:
        """Whether the server has hung up, or has said something that nobody asked for."""
        if self._look is not None:
            return bool(self._look.poll(0))
        try:
            return bool(self._made.can_read(timeout=0))
        except (exceptions.ConnectionError, OSError):
            return True

    def _connect(self) -> None:
        """Fails once if nobody is there."""
        self._made.connect()
        found = self._socket = self._made._sock
        if READER is not None and type(found) is socket.socket:
            wait_in_the_kernel(found, self._patience)
            self._look = _look_at(found)
            told = self._made._parser.parse_error
            self._reader = READER(protocolError=exceptions.InvalidResponse, replyError=told)

    def _talk(self, command: bytes, meanwhile: Callable[[], object] | None) -> Any:
        try:
            self._socket.sendall(command)
            if meanwhile is not None:
                meanwhile()
            answer = self._hear()
        except (TimeoutError, BlockingIOError) as error:
            raise exceptions.TimeoutError("Timeout on a socket") from error
        except OSError as error:
            raise exceptions.ConnectionError(str(error)) from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _hear(self) -> Any:
        reader = self._reader
        while (answer := reader.gets()) is False:  # not yet whole: this protocol has no booleans
            heard = self._socket.recv(AT_ONCE)
            if not heard:
                raise ConnectionResetError("Connection closed by server.")
            reader.feed(heard)
        return answer


def _look_at(found: socket.socket) -> Any:
    """Tells whether something is to be read, in one system call; None where there is no such thing."""
    if not hasattr(select, "poll"):
        return None
    look = select.poll()
    look.register(found, select.POLLIN)
    return look


def wait_in_the_kernel(found: socket.socket, seconds: float) -> None:
    """Python's own patience asks before each reading and writing whether it can: two system calls for one."""
    if sys.platform == "linux":
        length = struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, length)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, length)
        found.settimeout(None)
