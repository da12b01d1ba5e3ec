"""The application under load: its bodies write down when they begin and end, in whichever process they run.

Its store is DULY_URL, as for any application. The monotonic clock is the machine's, so that the lines of
several processes can be compared. A worker that is asked to also writes down that it goes on: a gap between
two of those lines is time that the machine did not give it.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Final

from duly import Duly, Run

JOURNAL: Final = "journal"
SLOW: Final = 1.8
PULSE: Final = 0.1

app = Duly()


def note(event: str, run: Run) -> None:
    """One line, in one write: appending keeps the lines of several processes apart."""
    write(f"{event} {run.id} {run.epoch} {time.monotonic()!r}")


def write(line: str) -> None:
    with open(Path(os.environ["FAULTS_FOLDER"]) / JOURNAL, "ab", buffering=0) as journal:
        journal.write(f"{line}\n".encode())


def beat() -> None:
    """Say without end that this process goes on."""
    while True:
        write(f"alive {os.getpid()} 0 {time.monotonic()!r}")
        time.sleep(PULSE)


if "FAULTS_PULSE" in os.environ:
    threading.Thread(target=beat, name="pulse", daemon=True).start()


@app.task
def quick(run: Run, number: int) -> None:
    """In a thread."""
    note("began", run)
    note("ended", run)


@app.task
async def slow(run: Run, number: int) -> None:
    """On the loop, long enough to be met in the middle; it can be stopped."""
    note("began", run)
    await asyncio.sleep(SLOW)
    note("ended", run)
