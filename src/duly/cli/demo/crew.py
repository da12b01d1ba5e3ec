"""The demo's workers: real processes of `duly worker`, and the harm done to them.

Signals go only to processes started here, through their handles, so that no number is ever reused.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType

import duly
from duly.cli.words import shown
from duly.stores.sqlite.filelock import FileLock

PATIENCE = timedelta(seconds=20)
GOODBYE = 15.0
"""Seconds a worker gets to drain."""


@dataclass(slots=True)
class Mate:
    """One worker process."""

    name: str
    process: subprocess.Popen[bytes]
    fate: str = "live"
    """live, killed, frozen or gone"""


class Crew:
    """All workers of one demo; none of them outlives it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.mates: dict[str, Mate] = {}

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for mate in self.mates.values():
            if mate.process.poll() is None:
                mate.process.send_signal(signal.SIGCONT)
                mate.process.kill()
                mate.process.wait()

    def hire(self, name: str) -> Mate:
        """Start a worker in the demo's folder, free of whatever DULY_ variables the caller has."""
        words = ["worker", "duly.cli.demo.app:app", "--name", name, "-c", "4", "--log-level", "info", "-v"]
        with self._log_of(name).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "duly", *words],
                cwd=self._folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,  # a Ctrl-C in the terminal is ours to pass on
            )
        self.mates[name] = Mate(name, process)
        return self.mates[name]

    def kill(self, mate: Mate) -> None:
        """kill -9: no goodbye, no chance to write anything."""
        mate.process.kill()
        mate.process.wait()
        mate.fate = "killed"

    def freeze(self, mate: Mate) -> None:
        """SIGSTOP: it believes that no time passes.

        SQLite has one writer, and one that is frozen while it writes keeps the file from all others. So we
        hold the engine's lock until the worker stands still: it is frozen between two writes.
        """
        with closing(FileLock(f"{self._folder}/duly.db-duly.lock")) as lock, lock.held(PATIENCE):
            mate.process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, mate.process.pid, os.WSTOPPED)
        mate.fate = "frozen"

    def thaw(self, mate: Mate) -> None:
        """SIGCONT: it goes on where it was."""
        mate.process.send_signal(signal.SIGCONT)
        mate.fate = "live"

    def dismiss(self) -> dict[str, int]:
        """SIGTERM to all that live; their exit codes by name."""
        living = [mate for mate in self.mates.values() if mate.process.poll() is None]
        for mate in living:
            mate.process.terminate()
        for mate in living:
            with suppress(subprocess.TimeoutExpired):
                mate.process.wait(GOODBYE)
            mate.fate = "gone"
        return {mate.name: code for mate in living if (code := mate.process.poll()) is not None}

    def unexpectedly_dead(self) -> list[str]:
        """Workers that ended without being told to."""
        return [
            mate.name
            for mate in self.mates.values()
            if mate.fate == "live" and mate.process.poll() is not None
        ]

    def logs(self, lines: int = 15) -> str:
        """The end of every worker's log, for a demo that went wrong."""
        parts: list[str] = []
        for name in self.mates:
            text = self._log_of(name).read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
            parts.append("\n".join([f"--- {name}", *map(shown, text)]))
        return "\n".join(parts)

    def _log_of(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DULY_")}
        source = str(Path(duly.__file__).parent.parent)
        path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        return {**kept, "PYTHONPATH": path, "DULY_DEMO_FOLDER": str(self._folder)}
