"""`duly worker --reload`: a worker in a child process, started afresh when the code changes.

The child has a process group of its own, so that a Ctrl-C in the terminal reaches it once, through us:
a second signal would mean "hand back at once".
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import FrameType

from duly.cli.exits import Exit
from duly.errors import MissingExtra

LOOK_EVERY = 500
"""Milliseconds between two looks at the child, in the unit watchfiles takes."""


class Reloader:
    """One worker at a time."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = [word for word in words if word != "--reload"]
        self._environment = {name: value for name, value in os.environ.items() if name != "DULY_RELOAD"}
        self._child: subprocess.Popen[bytes] | None = None
        self.is_over = threading.Event()

    def start(self) -> None:
        """A new worker."""
        self._child = subprocess.Popen(
            [sys.executable, "-m", "duly", "worker", *self._words], env=self._environment, process_group=0
        )

    def restart(self) -> None:
        """The old worker drains first: two versions of the code never run side by side."""
        self.pass_on(signal.SIGTERM)
        self.wait()
        if not self.is_over.is_set():
            self.start()

    def pass_on(self, number: int) -> None:
        """Send a signal to the worker, if it lives."""
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)

    def wait(self) -> int:
        """The worker's exit code."""
        return 0 if self._child is None else self._child.wait()

    def ended(self) -> int | None:
        """The exit code of a worker that ended by itself and was not noticed yet."""
        if self._child is None or (code := self._child.poll()) is None:
            return None
        self._child = None
        return code

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Ours to pass on."""
        self.is_over.set()
        self.pass_on(number)


def serve_and_watch(words: Sequence[str]) -> int:
    """Serve until told to stop."""
    try:
        from watchfiles import PythonFilter, watch
    except ImportError:
        raise MissingExtra("--reload", "reload") from None

    reloader = Reloader(words)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, reloader.on_signal)
    reloader.start()
    for changes in watch(
        ".",
        watch_filter=PythonFilter(),
        stop_event=reloader.is_over,
        rust_timeout=LOOK_EVERY,
        yield_on_timeout=True,
    ):
        if changes:
            names = ", ".join(sorted(os.path.relpath(path) for _, path in changes)[:3])
            print(f"duly: {names} changed, starting afresh", file=sys.stderr)
            reloader.restart()
        elif (code := reloader.ended()) is not None:
            if code == Exit.OK:
                return code
            print(f"duly: the worker ended with code {code}; waiting for a change", file=sys.stderr)
    return reloader.wait()
