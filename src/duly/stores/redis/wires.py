"""Connections that stay with the store from one call to the next.

On the driver's own way a command passes a pool, retries and observers, and its answer more of them: a third
of the processor time of an enqueue. A script needs none of them. It is never sent twice, and whether the
server has hung up in the meantime is looked at before, as the pool does it. So the driver connects, and a
plain socket is spoken to and read from directly; where there is none, or no hiredis, the driver's way serves.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
from queue import Empty, SimpleQueue
from typing import Any, Final

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


class Wires:
    """So many connections at most; whoever finds all of them in use waits for one."""

    def __init__(self, pool: Any, most: int, patience: float) -> None:
        self._pool = pool
        self._patience = patience
        self._unmade = threading.Semaphore(most)
        self._idle: SimpleQueue[Wire] = SimpleQueue()

    def ask(self, *words: Any) -> Any:
        """One command and its answer."""
        wire = self._take()
        try:
            return wire.ask(words)
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
        """The driver's, where we speak to it ourselves."""
        self._reader: Any = None

    def ask(self, words: tuple[Any, ...]) -> Any:
        """Send, and wait for the answer; an error that the server answers is raised."""
        if _is_cut(self._made):
            self.cut()
        if self._made._sock is None:
            self._connect()
        if self._reader is None:
            self._made.send_command(*words)
            return self._made.read_response()
        return self._talk(words)

    def cut(self) -> None:
        """Hang up; the next command connects again."""
        self._made.disconnect()
        self._socket = self._reader = None

    def _connect(self) -> None:
        self._made.connect()
        found = self._made._sock
        if READER is not None and type(found) is socket.socket:
            _wait_in_the_kernel(found, self._patience)
            self._socket = found
            told = self._made._parser.parse_error
            self._reader = READER(protocolError=exceptions.InvalidResponse, replyError=told)

    def _talk(self, words: tuple[Any, ...]) -> Any:
        try:
            for piece in self._made.pack_command(*words):
                self._socket.sendall(piece)
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


def _is_cut(made: Any) -> bool:
    """Whether the server has hung up, or has said something that nobody asked for."""
    if made._sock is None:  # we connect, which fails once if nobody is there
        return False
    try:
        return bool(made.can_read(timeout=0))
    except (exceptions.ConnectionError, OSError):
        return True


def _wait_in_the_kernel(found: socket.socket, seconds: float) -> None:
    """Python's own patience asks before each reading and writing whether it can: two system calls for one."""
    if sys.platform == "linux":
        length = struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, length)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, length)
        found.settimeout(None)
