"""A pool of threads for synchronous bodies, one of which can be interrupted without touching the next.

CPython can raise an exception in another thread, but only "whenever that thread next runs bytecode", which
may be after its body has ended and another one has begun. So every body has a fence of its own: an interrupt
is sent only while the body is inside the fence, and a body that leaves it takes back what has not struck yet.
An interrupt can still strike on the way out, in the few steps here; `_absorbing` catches those. Inside a body
`shielded` steps outside for a moment: what must not be torn apart is not.

A body stuck in C code cannot be interrupted at all: that needs a child process.

No lock is taken for a body, but for its soft limit. Whoever waited for one is given it before he has the
interpreter, and those who have that run into it: from then on every body makes threads change places, two or
three times.
"""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from duly.errors import SoftLimitExceeded
from duly.executors.deadlines import Deadlines
from duly.executors.errands import PoolClosed, Stopped
from duly.shield import shield_by

T = TypeVar("T")
Body = Callable[[], Any]
Done = Callable[[Any, BaseException | None], None]
Run = Callable[["Token"], None]
Fail = Callable[[BaseException], object]

INTERRUPTS: Final = 2  # per body: its soft limit and its lost lease; `_absorbing` is stacked as often
FENCE_PATIENCE: Final = 0.1  # seconds; a body passes its fence in microseconds
LOG = logging.getLogger("duly.executors")

_set_async_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_async_exception.argtypes = [ctypes.c_ulong, ctypes.py_object]
_set_async_exception.restype = ctypes.c_int


class _Void(BaseException):
    """Takes the place of an interrupt that has not struck."""


def _take_back() -> None:
    """See to it that nothing strikes this thread any more.

    CPython can clear a pending exception, but (before 3.13) goes on believing that there is one: every
    thread then takes the slow path, and one that is traced never gets on. So replace it, and take the hit.
    """
    try:
        _set_async_exception(threading.get_ident(), _Void)
        for _ in range(10_000):  # the first step is enough
            pass
    except _Void:
        pass


class Token:
    """One body given to the pool: the handle to interrupt it, and where its outcome gathers."""

    __slots__ = (
        "body",
        "done",
        "failure",
        "fence",
        "has_ended",
        "interrupts",
        "refusal",
        "result",
        "soft_limit",
        "thread",
    )

    def __init__(self, body: Body, done: Done, soft_limit: timedelta | None) -> None:
        self.body = body
        self.done = done
        self.soft_limit = soft_limit
        self.result: Any = None
        self.failure: BaseException | None = None
        self.has_ended = False  # the body returned or raised by itself
        self.refusal: BaseException | None = None  # why it must not begin, or go on
        self.thread: int | None = None  # where it runs, while it is inside the fence
        self.interrupts = 0
        # Reentrant: a thread struck while it holds the fence takes it again and goes on.
        self.fence = threading.RLock()

    def enter(self) -> None:
        """Step inside the fence, unless the body was called off."""
        with self.fence:
            self.thread = threading.get_ident()
            refusal, self.refusal = self.refusal, None
            if refusal is not None:
                raise refusal

    def step_outside(self, act: Callable[[], T]) -> T:
        """Do this outside the fence; an interrupt that comes meanwhile is raised on the way back in."""
        if self.thread is None:  # it is outside already
            return act()
        try:
            with self.fence:
                self.thread = None
            if self.interrupts:  # one that was sent before strikes in the first step, so before the act
                for _ in range(100):
                    pass
            return act()
        finally:
            self.enter()

    def leave(self) -> None:
        """Step outside: no interrupt is sent from here on, and one that was sent no longer strikes."""
        with self.fence:
            self.thread = None
        if self.interrupts:
            _take_back()


class Threads:
    """Up to `size` daemon threads, started when there is work for them.

    An open pool that breaks calls `fail`: who waits for an outcome that never comes may submit nothing more.
    A thread that has reported an outcome calls `freed`, where the next body may be submitted to it.
    """

    def __init__(
        self, size: int, *, fail: Fail = lambda _: None, freed: Callable[[], None] = lambda: None
    ) -> None:
        self._size = size
        self._fail = fail
        self._freed = freed
        self._queue: SimpleQueue[Token | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._interrupting = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._running: set[Token] = set()
        self._unfinished: deque[None] = deque()  # as many as there are bodies; a number would need a lock
        self._deadlines: Deadlines[Token] = Deadlines(lambda token: self.interrupt(token, SoftLimitExceeded))
        self._failure: BaseException | None = None
        self._is_closed = False

    def submit(self, body: Body, done: Done, *, soft_limit: timedelta | None = None) -> Token:
        """Run the body in a thread, then call `done(result, failure)` there; no failure if it returned.

        The soft limit counts from the moment the body begins. `done` may take its time, to commit something:
        until it returns, the thread is not free.
        """
        token = Token(body, done, soft_limit)
        self._check_open()
        self._unfinished.append(None)  # before the look: of those who come together, the last sees them all
        if len(self._threads) < min(len(self._unfinished), self._size):
            self._start_thread()
        self._queue.put(token)
        if self._is_closed:  # meanwhile, and perhaps after its last look at the queue
            self._call_off_waiting()
        return token

    def interrupt(self, token: Token, exception: type[BaseException]) -> bool:
        """Raise in that body and in no other; False when it is too late.

        A body that has not begun never begins. One that sits in a C call sees it when the call returns.
        """
        with self._interrupting:
            if not token.fence.acquire(timeout=FENCE_PATIENCE):
                return False  # it was struck on its way out and left the fence shut
            try:
                return _interrupt(token, exception)
            finally:
                token.fence.release()

    def close(self, *, grace: timedelta) -> list[Token]:
        """Take no more bodies, call off those not begun, return those still stuck after the grace."""
        with self._starting:
            self._is_closed = True
            threads = list(self._threads)
        self._call_off_waiting()
        self._queue.put(None)
        deadline = time.monotonic() + grace.total_seconds()
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._deadlines.close()
        return list(self._running)

    def _check_open(self) -> None:
        if self._failure is not None:
            raise PoolClosed(f"This pool of threads is broken: {self._failure!r}.") from self._failure
        if self._is_closed:
            raise PoolClosed("This pool of threads was closed. Open a new one.")

    def _start_thread(self) -> None:
        with self._starting:
            if self._is_closed or len(self._threads) >= min(len(self._unfinished), self._size):
                return
            number = len(self._threads) + 1
            thread = threading.Thread(target=self._work, name=f"duly-thread-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no more: this body was not taken
                self._unfinished.pop()
                raise
            self._threads.append(thread)

    def _call_off_waiting(self) -> None:
        waiting: list[Token | None] = []
        with suppress(Empty):
            while True:
                waiting.append(self._queue.get_nowait())
        if None in waiting:  # the word to end, which is for the threads
            self._queue.put(None)
        for token in filter(None, waiting):
            self._finish(token, Stopped("the pool was closed"))

    def _work(self) -> None:
        try:
            while (token := self._queue.get()) is not None:
                if self._is_closed:
                    self._finish(token, Stopped("the pool was closed"))
                else:
                    self._serve(token)
            self._queue.put(None)  # for the next one
        except BaseException as failure:  # the engine's own fault: what a body raises does not come here
            LOG.critical("A thread of the pool died.", exc_info=failure)
            self._break(failure)

    def _serve(self, token: Token) -> None:
        self._running.add(token)
        if token.soft_limit is None:
            _run(token)
        else:
            self._deadlines.begin(token, token.soft_limit)
            _run(token)
            self._deadlines.end(token)
        self._running.discard(token)
        self._finish(token, token.failure)

    def _finish(self, token: Token, failure: BaseException | None) -> None:
        try:
            token.done(token.result, failure)
            self._unfinished.pop()
            self._freed()
        except BaseException as error:  # an outcome that nobody took: the next caller must hear of it
            LOG.critical("The outcome of a body could not be reported.", exc_info=error)
            self._break(error)

    def _break(self, failure: BaseException) -> None:
        self._failure = failure
        if not self._is_closed:
            self._fail(failure)


def _interrupt(token: Token, exception: type[BaseException]) -> bool:
    if token.thread is None:
        return _call_off(token, exception)
    if token.interrupts >= INTERRUPTS:
        return False
    token.interrupts += 1
    return bool(_set_async_exception(token.thread, exception))


def _call_off(token: Token, exception: type[BaseException]) -> bool:
    if token.has_ended or token.refusal is not None:
        return False
    token.refusal = exception()
    return True


_here = threading.local()


def is_interrupt_waiting() -> bool:
    """Inside `shielded`: whether an interrupt waits for its end. Whoever waits there himself should look."""
    token: Token | None = getattr(_here, "token", None)
    return token is not None and token.refusal is not None


def _attempt(token: Token) -> None:
    try:
        _here.token = token
        shield_by(token.step_outside)
        token.enter()
        token.result = token.body()
    except BaseException as failure:
        token.failure = failure
    token.has_ended = True
    token.leave()


def _absorbing(run: Run) -> Run:
    """Survive one interrupt that strikes after the body ended, or between its end and our noticing."""

    def absorb(token: Token) -> None:
        try:
            run(token)
        except BaseException as strike:
            if not token.has_ended:
                token.failure, token.has_ended = token.failure or strike, True
            token.leave()

    return absorb


_run: Run = _attempt
for _ in range(INTERRUPTS):
    _run = _absorbing(_run)
