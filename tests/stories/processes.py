"""Workers in processes of their own, which a test may stop, freeze, continue and kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.stories.arrange import until

ROOT: Final = Path(__file__).parents[2]
TARGET: Final = "tests.stories.errands:app"


class WorkerProcess:
    """`duly worker` on the errands, started by the test and never left behind."""

    def __init__(self, log: Path, *words: str, **variables: str) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "duly", "worker", TARGET, *words],
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

    def freeze(self) -> None:
        self.send(signal.SIGSTOP)
        until(lambda: _state_of(self.pid) == "T")

    def thaw(self) -> None:
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self._process.wait(10)

    def wait(self, seconds: float = 10.0) -> int:
        """Its exit code."""
        return self._process.wait(seconds)

    def end(self) -> None:
        """At the end of a test, whatever happened in it."""
        if self._process.poll() is None:
            self.send(signal.SIGCONT)
            self.kill()


def _state_of(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return stat.rpartition(")")[2].split()[0]
