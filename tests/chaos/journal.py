"""What a process of a chaos run writes down: one JSON line per event, in a file of its own.

Each line is one unbuffered write to a file opened for appending, so whatever was written before a SIGKILL is
there. Times are boot time, which all processes share and no step of the wall clock moves; the wall time
beside it is the one this process believes in.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

FOLDER: Final = "CHAOS_FOLDER"
PROCESS: Final = "CHAOS_PROCESS"
PR_SET_PDEATHSIG: Final = 1


def boot() -> float:
    """Seconds since the machine started, the same for every process."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Journal:
    """One process's file. A forked or spawned child of that process gets another."""

    def __init__(self, folder: Path, process: str) -> None:
        self._folder = folder
        self.process = process
        self._pid = 0
        self._file = -1

    def write(self, kind: str, **fields: Any) -> None:
        """Append one event; it is in the kernel's hands when this returns."""
        line = {"kind": kind, "at": boot(), "wall": time.time(), "pid": os.getpid(), **fields}
        os.write(self._descriptor(), (json.dumps(line, default=str) + "\n").encode())

    def _descriptor(self) -> int:
        if self._pid != os.getpid():
            path = self._folder / f"{self.process}.{os.getpid()}.jsonl"
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            self._pid = os.getpid()
        return self._file

    @contextmanager
    def around(self, kind: str, **fields: Any) -> Generator[dict[str, Any], None, None]:
        """An intent, then its answer; a call that raises is `unknown`, since nobody knows how far it came."""
        answer: dict[str, Any] = {}
        number = f"{self.process}.{os.getpid()}.{time.monotonic_ns()}"
        self.write(kind, phase="call", call=number, **fields)
        try:
            yield answer
        except BaseException as error:
            why = f"{type(error).__name__}: {error}"[:300]
            self.write(kind, phase="unknown", call=number, error=why, **fields, **answer)
            raise
        self.write(kind, phase="ok", call=number, **fields, **answer)


def die_with_parent() -> None:
    """Nobody of a run outlives its runner, however that ended."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def own_journal() -> Journal:
    """The journal of this process, by its environment."""
    return Journal(Path(os.environ[FOLDER]), os.environ[PROCESS])
