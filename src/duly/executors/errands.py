"""What can be asked of a child process, and what can come of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from signal import Signals


@dataclass(frozen=True, slots=True)
class Errand:
    """A call to be made in a child: `entry` is "package.module:function", called with the message and `emit`.

    The modules in `imports` are loaded before the clocks start, so that a cold child with a slow import does
    not use up the body's time.
    """

    entry: str
    message: bytes
    soft_limit: timedelta | None = None
    hard_limit: timedelta | None = None
    imports: tuple[str, ...] = ()


class ChildDied(Exception):
    """The process died while it ran the body."""

    def __init__(self, return_code: int) -> None:
        self.signal = -return_code if return_code < 0 else None
        self.exit_code = return_code if return_code >= 0 else None
        super().__init__(self.evidence())

    def evidence(self) -> str:
        """How it died, for the record."""
        if self.signal is None:
            return f"exited with code {self.exit_code}"
        return f"killed by signal {self.signal}{_signal_name(self.signal)}"


class ChildNotStarted(Exception):
    """No child got as far as the body: it never ran."""


class ChildFailed(Exception):
    """An exception left the entry function, or it could not be imported; `text` is the traceback."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name
        self.text = text


class HardLimitExceeded(Exception):
    """The body ran past its hard limit; its process is dead."""

    def __init__(self, limit: timedelta) -> None:
        super().__init__(f"Ran past the hard limit of {limit.total_seconds():g} s; its process was killed.")
        self.limit = limit


class Stopped(Exception):
    """We ended the body, or never began it; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Stopped: {reason}")
        self.reason = reason


class PoolClosed(RuntimeError):
    """Work given to a pool that takes none any more."""


@dataclass(slots=True, eq=False)
class Trip:
    """An errand under way, as the parent sees it."""

    number: int
    errand: Errand
    on_emit: Callable[[bytes], None]
    future: Future[bytes] = field(default_factory=Future[bytes])
    tries: int = 0
    has_started: bool = False
    stop_reason: str | None = None

    def begin(self) -> bool:
        """Take the future out of its caller's hands; False if the caller has cancelled it."""
        return self.future.running() or self.future.set_running_or_notify_cancel()


def _signal_name(number: int) -> str:
    try:
        return f" ({Signals(number).name})"
    except ValueError:
        return ""
