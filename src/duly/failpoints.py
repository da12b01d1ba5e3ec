"""Named places at which a real process can be made to die, freeze, hang or fail.

Nothing happens unless DULY_FAILPOINTS was set when the process started:

    DULY_FAILPOINTS="after_body=exit"
    DULY_FAILPOINTS="before_settle=stop nth=3 task=shop.send_mail; after_claim=sleep for=2.5"

Each entry is point=action; `nth` picks one hit instead of all, `task` one task, `for` the seconds to sleep.
Callers in a hot loop look at `armed` first; everywhere else `reached` is one comparison.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import Final

from duly.errors import DefinitionError, DulyError

VARIABLE: Final = "DULY_FAILPOINTS"
POINTS: Final = (
    "after_claim",
    "before_body",
    "after_body",
    "before_settle",
    "after_settle",
    "before_commit",
    "after_commit",
    "before_deliver",
    "after_deliver",
)
MOVING: Final = "moving"
"""The steps of `duly move`; the step stands in the place of the task."""
ACTIONS: Final = ("raise", "exit", "stop", "sleep", "hang")
KILLED: Final = 137
"""The exit code a shell reports after SIGKILL: 128 + 9."""


class FailpointReached(DulyError):
    """Raised by a failpoint whose action is `raise`."""


@dataclass(slots=True, kw_only=True)
class Failpoint:
    """One armed place."""

    point: str
    action: str
    nth: int | None = None
    task: str | None = None
    seconds: float = 1.0
    hits: int = field(default=0, compare=False)

    def strikes(self, point: str, task: str) -> bool:
        """Whether this arrival is the one it waits for. The caller holds the lock."""
        if point != self.point or self.task not in (None, task):
            return False
        self.hits += 1
        return self.nth in (None, self.hits)


class Armed:
    """The failpoints of this process."""

    def __init__(self, failpoints: list[Failpoint]) -> None:
        self._failpoints = failpoints
        self._lock = threading.Lock()

    def reach(self, point: str, task: str) -> None:
        """Count the arrival; act if a failpoint waits for it."""
        with self._lock:
            due = [failpoint for failpoint in self._failpoints if failpoint.strikes(point, task)]
        for failpoint in due:
            _act(failpoint, task)


def reached(point: str, task: str = "") -> None:
    """Say that the process is at a named place, for a job of this task."""
    if armed is not None:
        armed.reach(point, task)


def _act(failpoint: Failpoint, task: str) -> None:
    match failpoint.action:
        case "exit":
            os._exit(KILLED)
        case "stop":
            _stop()
        case "sleep":
            time.sleep(failpoint.seconds)
        case "hang":
            threading.Event().wait()
        case _:
            raise FailpointReached(f"{VARIABLE} makes {task or 'this process'} fail at {failpoint.point}.")


def _stop() -> None:
    """Freeze the process, this thread first.

    A signal to the process goes to its main thread, and this one runs on until that has been scheduled.
    """
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def read(text: str) -> list[Failpoint]:
    """The failpoints a text describes; a mistake is named rather than ignored."""
    return [_read_one(entry) for entry in re.split(r"[;,]", text) if entry.strip()]


def _read_one(entry: str) -> Failpoint:
    words = [word.partition("=") for word in entry.split()]
    if not all(name and value for name, _, value in words):
        raise DefinitionError(
            f"{VARIABLE} has {entry.strip()!r}: write point=action, then nth=, task=, for=."
        )
    (point, _, action), *rest = words
    options = {name: value for name, _, value in rest}
    unknown = set(options) - {"nth", "task", "for"}
    if point not in (*POINTS, MOVING) or action not in ACTIONS or unknown:
        raise DefinitionError(
            f"{VARIABLE} has {entry.strip()!r}. Points: {', '.join(POINTS)}; actions: {', '.join(ACTIONS)}; "
            "options: nth, task, for."
        )
    return Failpoint(
        point=point,
        action=action,
        nth=_nth(options["nth"]) if "nth" in options else None,
        task=options.get("task"),
        seconds=_seconds(options.get("for", "1")),
    )


def _nth(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise DefinitionError(f"{VARIABLE} has nth={text}; it takes a whole number of at least 1.")
    return int(text)


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        raise DefinitionError(f"{VARIABLE} has for={text}; it takes seconds, like for=2.5.")
    return float(text)


def arm(text: str) -> None:
    """Arm this process; an empty text disarms it."""
    global armed  # noqa: PLW0603  one set per process is the point
    failpoints = read(text)
    armed = Armed(failpoints) if failpoints else None


armed: Armed | None = None
arm(os.environ.get(VARIABLE, ""))
