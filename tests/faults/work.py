"""The application under load: its bodies write down when they begin and end, in whichever process they run.

Its store is DULY_URL, as for any application. The monotonic clock is the machine's, so that the lines of
several processes can be compared.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Final

from duly import Duly, Run

JOURNAL: Final = "journal"
SLOW: Final = 1.8

app = Duly()


def note(event: str, run: Run) -> None:
    """One line, in one write: appending keeps the lines of several processes apart."""
    line = f"{event} {run.id} {run.epoch} {time.monotonic()!r}\n"
    with open(Path(os.environ["FAULTS_FOLDER"]) / JOURNAL, "ab", buffering=0) as journal:
        journal.write(line.encode())


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
