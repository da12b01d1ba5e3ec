"""Whose turn it is to write, for those who write longer than an operation does: bodies with a transaction.

They wait in a line of their own within the process, then in the kernel's queue behind every other process
and the engine's own writer. Whoever waits can be told to stop waiting.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from duly.errors import StoreBusy
from duly.stores.sqlite.filelock import FileLock

LOOK: Final = 0.05
"""Seconds between two looks whether the turn is still wanted; also how late an interrupt may strike."""


class GaveUp(Exception):
    """The turn is not wanted any more."""


class Line:
    """The bodies of one process that want to write to one file, in the order they came.

    Only the next one is woken: with twenty in the line, waking all took half of a short body's time.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock_path = f"{path}-duly.lock"
        self._mutex = threading.Lock()
        self._waiting: deque[Turn] = deque()
        self._spare: FileLock | None = None
        self._is_closed = False

    def join(self, turn: Turn, is_wanted: Callable[[], bool]) -> None:
        """Wait to be the first."""
        with self._mutex:
            self._waiting.append(turn)
            if self._waiting[0] is turn:
                return
            turn.gate = gate = threading.Lock()
            gate.acquire()
        while not gate.acquire(timeout=LOOK):
            if not is_wanted():
                raise GaveUp

    def leave(self, turn: Turn) -> None:
        """Let the next one go."""
        with self._mutex:
            if turn not in self._waiting:
                return
            was_first = self._waiting[0] is turn
            self._waiting.remove(turn)
            if was_first and self._waiting:
                self._waiting[0].open_gate()

    # The handle of the first in the line. Opening one for each turn took 20 µs of it, and closing as much.

    def take_lock(self) -> FileLock:
        """A handle on the lock that all processes share, not yet locked."""
        with self._mutex:
            spare, self._spare = self._spare, None
        return spare or FileLock(self._lock_path)

    def give_back_lock(self, lock: FileLock) -> None:
        """One that nobody waits with any more. Let go at once: closing does not, where a fork has a copy."""
        lock.release()
        with self._mutex:
            if self._spare is None and not self._is_closed:
                self._spare = lock
                return
        lock.close()

    def close(self) -> None:
        """Keep no handle from here on."""
        with self._mutex:
            self._is_closed = True
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.close()

    def forget(self) -> None:
        """In a forked child, where whoever held the mutex is no more: let go of the parent's handles.

        Never of its lock, and else a child would hold that for as long as it lives if the parent dies.
        """
        if self._spare is not None:
            self._spare.close()
        for turn in self._waiting:
            turn.forget()


class Turn:
    """The right to write. Every step leaves a trace, so that `end` undoes what an interrupt cut short."""

    def __init__(self, line: Line) -> None:
        self.path = line.path
        self._line = line
        self.gate: threading.Lock | None = None
        """Shut while others of this process are before it; none if nobody was."""
        self._wait: _Wait | None = None
        self._taken_at: float | None = None

    @property
    def is_held(self) -> bool:
        """Nobody else can write."""
        return self._taken_at is not None

    @property
    def held(self) -> float:
        """Seconds for which nobody else could write."""
        return 0.0 if self._taken_at is None else time.monotonic() - self._taken_at

    def open_gate(self) -> None:
        """It is the first now."""
        assert self.gate is not None
        self.gate.release()

    def take(self, is_wanted: Callable[[], bool]) -> None:
        """Wait for the turn; GaveUp when it is not wanted any more."""
        self.end()  # of an earlier try that was interrupted
        self._line.join(self, is_wanted)
        self._wait = _Wait(self._line)
        self._wait.run(is_wanted)
        self._taken_at = time.monotonic()

    def end(self) -> None:
        """Whatever was taken is free again; may be said twice."""
        self._taken_at = None
        if self._wait is not None:
            self._wait.end()
            self._wait = None
        self._line.leave(self)

    def forget(self) -> None:
        """In a forked child: the turn is the parent's."""
        wait, self._wait = self._wait, None
        if wait is not None:
            wait.forget()


class _Wait:
    """A place in the kernel's queue, which only a thread that may be left behind can hold."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._lock = line.take_lock()
        self._mutex = threading.Lock()
        self._is_waiting = False
        self._is_left = False

    def run(self, is_wanted: Callable[[], bool]) -> None:
        if self._lock.try_acquire():
            return
        gate = threading.Lock()
        gate.acquire()
        self._is_waiting = True
        threading.Thread(target=self._queue_up, args=(gate,), name="duly-sqlite-turn", daemon=True).start()
        while not gate.acquire(timeout=LOOK):
            if not is_wanted():
                raise GaveUp

    def _queue_up(self, gate: threading.Lock) -> None:
        self._lock.acquire()
        with self._mutex:
            self._is_waiting = False
            gate.release()
            if self._is_left:
                self._lock.release()  # closing does not, where a fork has a copy
                self._lock.close()

    def end(self) -> None:
        with self._mutex:
            if self._is_waiting:
                self._is_left = True  # the thread closes it when its turn comes
                return
        self._line.give_back_lock(self._lock)

    def forget(self) -> None:
        self._lock.close()


_current: ContextVar[Turn | None] = ContextVar("duly_sqlite_turn", default=None)


def holds_here(turn: Turn) -> None:
    """From here on this body holds the file."""
    _current.set(turn)


def refuse_second_writer(path: str, doing: str) -> None:
    """A body that waits for itself would wait for ever: tell it at once."""
    turn = _current.get()
    if turn is not None and turn.path == path and turn.is_held:
        raise StoreBusy(
            f"{doing} needs to write to {path}, which this task's own transaction holds. Use run.connection "
            "for it, or call it before the first statement (SQLite has one writer at a time)."
        )
