"""Exceptions that the parent sends into the body that runs in a child's main thread.

A signal is the only thing that ends a `time.sleep` or a blocking `recv`. It carries no address, so one
that comes late could hit the next body. Therefore the watching thread writes down which errand is meant
before it signals, and the signal's function, which always runs in the main thread, looks at what it has
interrupted: it raises only inside the body of that very errand.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Final, Protocol, TypeVar

from duly.shield import shield_by

T = TypeVar("T")

# A real-time signal, because bodies and their libraries use SIGALRM, SIGUSR1 and SIGUSR2 themselves.
SIGNAL: Final[int] = signal.SIGRTMAX - 2 if sys.platform == "linux" else signal.SIGUSR2
PATIENCE: Final = 0.3  # seconds a loop gets before the signal goes after whatever blocks it


class Wish:
    """One exception on its way into the body of one errand."""

    def __init__(self, number: int, exception: type[BaseException]) -> None:
        self.number = number
        self.exception = exception
        self.is_delivered = False
        self.is_urgent = False


class Courier(Protocol):
    """Brings a wish to a body in an event loop: raised in the loop's own code it would break the loop."""

    def deliver(self, wish: Wish, frame: FrameType | None) -> None:
        """Raise here if `frame` is the body's own code, else have the loop throw it into the body."""
        ...


class Interrupts:
    """The wishes for the errand that runs in this process's main thread."""

    def __init__(self) -> None:
        self._number = 0
        self._is_shielded = False
        self._courier: Courier | None = None
        self._wishes: deque[Wish] = deque()

    def install(self) -> None:
        """Listen for the signal; main thread only."""
        signal.signal(SIGNAL, self._on_signal)
        shield_by(self.shielded)

    def begin(self, number: int) -> None:
        """From here on wishes for this errand count, and older ones are void."""
        self._number = number

    def call(self, body: Callable[[], T]) -> T:
        """Run the body. While this frame is on the stack, wishes are raised; nowhere else."""
        self._deliver(None)  # what came while its modules were being imported
        return body()

    def request(self, number: int, exception: type[BaseException]) -> None:
        """Raise in the body of that errand, if it still runs. Called by the watching thread."""
        wish = Wish(number, exception)
        self._signal(wish)
        if self._courier is not None:
            self._insist(wish)

    @contextmanager
    def shield(self) -> Generator[None, None, None]:
        """Around what must not be torn apart; wishes wait until it is over. Main thread only."""
        was_shielded, self._is_shielded = self._is_shielded, True
        try:
            yield
        finally:
            self._is_shielded = was_shielded
        if not was_shielded:
            self._deliver(None)

    def shielded(self, act: Callable[[], T]) -> T:
        """Do one thing under the shield; its value is lost to a wish that was waiting."""
        with self.shield():
            return act()

    @property
    def has_wish(self) -> bool:
        """Under the shield: whether a wish waits for its end. Whoever waits there himself should look."""
        return any(wish.number == self._number for wish in list(self._wishes))

    def carried_by(self, courier: Courier | None) -> Courier | None:
        """Hand later wishes to this courier; returns the one before."""
        before, self._courier = self._courier, courier
        return before

    def _signal(self, wish: Wish) -> None:
        self._wishes.append(wish)
        ident = threading.main_thread().ident
        if ident is not None:
            signal.pthread_kill(ident, SIGNAL)

    def _insist(self, wish: Wish) -> None:
        time.sleep(PATIENCE)
        if not wish.is_delivered:
            wish.is_urgent = True
            self._signal(wish)

    def _on_signal(self, _signal: int, frame: FrameType | None) -> None:
        if not self._is_shielded and is_running(Interrupts.call.__code__, frame):
            self._deliver(frame)

    def _deliver(self, frame: FrameType | None) -> None:
        while self._wishes:
            wish = self._wishes.popleft()
            if wish.number == self._number and not wish.is_delivered:
                self._fulfil(wish, frame)

    def _fulfil(self, wish: Wish, frame: FrameType | None) -> None:
        if self._courier is not None:
            self._courier.deliver(wish, frame)
        else:
            wish.is_delivered = True
            raise wish.exception


def is_running(code: CodeType, frame: FrameType | None) -> bool:
    """Whether a call of this code is on the stack that ends in `frame`."""
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


INTERRUPTS: Final = Interrupts()  # there is one main thread, so there is one of these
