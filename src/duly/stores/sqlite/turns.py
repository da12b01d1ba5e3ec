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


MOMENT: Final = 0.001
"""Seconds for which the place is kept for a thread that comes back at once."""
SPELL: Final = 0.005
"""Seconds after which the others have their turn, however quickly one comes back."""
CREDIT: Final = 4
DEBT: Final = 32
"""How often threads must come back at once after one that did not: else each would cost a moment."""


class GaveUp(Exception):
    """The turn is not wanted any more."""


class Line:
    """The bodies of one process that want to write to one file, in the order they came.

    Only the next one is woken: with twenty in the line, waking all took half of a short body's time. Not even
    that one while the thread that left comes back at once with its next body, as it does when bodies are
    short: handing over took a seventh of such a run. It goes first for some milliseconds, then others do.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock_path = f"{path}-duly.lock"
        self._mutex = threading.Lock()
        self._inside: Turn | None = None
        self._waiting: deque[Turn] = deque()
        self._heir = 0
        """The thread for which the place is kept, while nobody is inside and others wait."""
        self._last = 0
        """The thread that left last."""
        self._left_at = 0.0
        self._since = 0.0
        """When the first body of the present thread was let in."""
        self._credit = 0
        """More than nothing when threads come back at once."""
        self._spare: FileLock | None = None
        self._is_closed = False

    def join(self, turn: Turn, is_wanted: Callable[[], bool]) -> None:
        """Wait to be let in."""
        with self._mutex:
            if self._may_enter(threading.get_ident(), time.monotonic()):
                self._inside = turn
                return
            turn.gate = threading.Lock()
            turn.gate.acquire()
            self._waiting.append(turn)
        while not self._is_let_in(turn):
            if not is_wanted():
                raise GaveUp

    def _may_enter(self, thread: int, now: float) -> bool:
        if thread == self._last:
            is_quick = now < self._left_at + MOMENT
            self._credit = min(self._credit + 1, CREDIT) if is_quick else min(self._credit, 0)
        if self._inside is None and thread == self._heir:
            self._heir = 0
            return True
        if self._inside is None and not self._waiting:
            self._heir, self._since = 0, now
            return True
        return False

    def _is_let_in(self, turn: Turn) -> bool:
        """Wait for a while; the first of the line goes in by itself when nobody came for the place."""
        turn.await_gate()
        with self._mutex:
            is_first, now = bool(self._waiting) and self._waiting[0] is turn, time.monotonic()
            if is_first and self._inside is None and now >= self._left_at + MOMENT:
                self._credit = -DEBT
                self._let_in_next()
            turn.is_alert = is_first and now < self._since + 2 * SPELL
            return self._inside is turn

    def leave(self, turn: Turn) -> None:
        """Let the next one go."""
        with self._mutex:
            if self._inside is turn:
                self._inside = None
                self._pass_on(threading.get_ident(), time.monotonic())
            elif turn in self._waiting:
                self._waiting.remove(turn)
                if self._inside is None and self._waiting:
                    self._let_in_next()

    def _pass_on(self, thread: int, now: float) -> None:
        self._last, self._left_at = thread, now
        if not self._waiting:
            return
        if self._credit > 0 and now < self._since + SPELL:
            self._heir = thread
            self._waiting[0].alert()
        else:
            self._let_in_next()

    def _let_in_next(self) -> None:
        self._heir, self._since = 0, time.monotonic()
        self._inside = turn = self._waiting.popleft()
        turn.open_gate()

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
        for turn in (self._inside, *self._waiting):
            if turn is not None:
                turn.forget()


class Turn:
    """The right to write. Every step leaves a trace, so that `end` undoes what an interrupt cut short."""

    def __init__(self, line: Line) -> None:
        self.path = line.path
        self._line = line
        self.gate: threading.Lock | None = None
        """Shut while others of this process are before it; none if nobody was."""
        self.is_alert = False
        """The first in the line, which looks often whether the place is free."""
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
        """There is something to see. The line's mutex is held."""
        assert self.gate is not None
        if self.gate.locked():
            self.gate.release()

    def alert(self) -> None:
        """The place is kept for somebody who may not come. The line's mutex is held."""
        if not self.is_alert:
            self.is_alert = True
            self.open_gate()

    def await_gate(self) -> None:
        """Wait until there is something to see, or it is time to look."""
        assert self.gate is not None
        self.gate.acquire(timeout=MOMENT if self.is_alert else LOOK)

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
