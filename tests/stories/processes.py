"""Workers in processes of their own, which a test may stop, freeze, continue and kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Final

from tests.stories.arrange import until

from duly import Duly
from duly.stores.sqlite.filelock import FileLock

ROOT: Final = Path(__file__).parents[2]
TARGET: Final = "tests.stories.errands:app"
SHORT: Final = {"DULY_LEASE": "2s"}
"""For a worker that will die or freeze: what it held is lent again soon. Others lose nothing they hold."""


class WorkerProcess:
    """`duly worker` on the errands, started by the test and never left behind."""

    def __init__(self, log: Path, *words: str, target: str = TARGET, **variables: str) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "duly", "worker", target, *words],
                cwd=ROOT,
                env={**os.environ, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def is_ready(self) -> bool:
        """It has said hello: its signals are in place soon after."""
        return "Ctrl-C stops" in self.log

    def send(self, number: signal.Signals) -> None:
        """Only ever to the process this object started."""
        self._process.send_signal(number)

    @property
    def is_frozen(self) -> bool:
        """It has stopped itself, or was stopped; one that has ended never will."""
        assert self._process.poll() is None, self.log
        return _state_of(self.pid) == "T"

    def freeze(self) -> None:
        self.send(signal.SIGSTOP)
        until(lambda: self.is_frozen)

    def thaw(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self._process.wait(40)

    def wait(self, seconds: float = 60.0) -> int:
        """Its exit code."""
        return self._process.wait(seconds)

    def end(self) -> None:
        """At the end of a test, whatever happened in it."""
        if self._process.poll() is None:
            self.send(signal.SIGCONT)
            self.kill()


class Crew:
    """The worker processes of one test, and the application through which it watches them."""

    def __init__(self, app: Duly, folder: Path) -> None:
        self.app = app
        self.folder = folder
        self._started: list[WorkerProcess] = []

    def start(self, *words: str, **variables: str) -> WorkerProcess:
        """Start a worker and wait until it works."""
        worker = self.launch(*words, **variables)
        until(worker.is_ready)
        return worker

    def launch(self, *words: str, **variables: str) -> WorkerProcess:
        """Start a worker and do not wait."""
        worker = WorkerProcess(self.folder / f"worker-{len(self._started)}.log", *words, **variables)
        self._started.append(worker)
        return worker

    def freeze(self, worker: WorkerProcess) -> None:
        """Stop the process between two writes: frozen in one it would hold the file, and all would wait."""
        with self._between_writes():
            worker.freeze()

    def _between_writes(self) -> AbstractContextManager[None]:
        path = getattr(self.app.store, "path", None)
        if path is None:
            return nullcontext()
        return FileLock(f"{path}-duly.lock").held(timedelta(seconds=60))

    def let(self, name: str) -> None:
        """Let the bodies go on that wait for this name."""
        (self.folder / name).touch()

    def end(self) -> None:
        for worker in self._started:
            worker.end()


def is_running(pid: int) -> bool:
    """Whether there is such a process that is not a mere entry in the table."""
    try:
        return _state_of(pid) != "Z"
    except FileNotFoundError:
        return False


def _state_of(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return stat.rpartition(")")[2].split()[0]
