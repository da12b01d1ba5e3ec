"""Worker processes of a test: what they say, what they cost, and that none is left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

TARGET: Final = "tests.faults.work:app"
ROOT: Final = Path(__file__).parents[2]
_STAMP: Final = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) ", re.MULTILINE)


class WorkerProcess:
    """`duly worker` on an application, started by the test."""

    def __init__(
        self, log: Path, *words: str, target: str = "tests.faults.work:app", **variables: str
    ) -> None:
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
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def said_at(self) -> list[float]:
        """When each line of the log was written."""
        return [datetime.fromisoformat(stamp).timestamp() for stamp in _STAMP.findall(self.log)]

    def processor_seconds(self) -> float:
        """What it has used so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """As a deploy would."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float = 60.0) -> int:
        """Its exit code."""
        return self._process.wait(seconds)

    def end(self) -> None:
        """At the end of a test, whatever happened in it; only ever the process this object started."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(40)


def busiest_second(moments: Sequence[float]) -> int:
    """The most of these moments that fall into one second, wherever it begins."""
    return max((sum(first <= at < first + 1 for at in moments) for first in moments), default=0)
