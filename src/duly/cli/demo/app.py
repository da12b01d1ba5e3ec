"""The demo's application: a small parcel office.

Every task that has an effect writes it into a ledger outside the store, with the run's epoch as fencing
token: the way to keep a late run's hands off a system that is not Duly.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from duly import Duly, Retry, Run
from duly.cli.demo.ledger import Ledger

FOLDER: Final = Path(os.environ["DULY_DEMO_FOLDER"])
CLOCK: Final = "clock"
SLIPPERY: Final = 7
"""Every so many orders, the first attempt at packing fails."""
SLOW: Final = 4.0
"""Seconds the first try at a delivery takes."""

app = Duly(f"sqlite:///{FOLDER}/duly.db", namespace="duly", lease="2s", poll="200ms", grace="5s")
ledger = Ledger(FOLDER / "ledger")


class Slipped(Exception):
    """The parcel fell off the table; worth another try."""


@app.task(retry=Retry(on=Slipped, attempts=5, first="100ms"))
def pack(run: Run, order: int) -> None:
    """A quick one-off task that sometimes needs a second attempt."""
    name = f"pack {order}"
    ledger.start(name, run.epoch)
    time.sleep(0.05 + order % 5 * 0.05)
    if order % SLIPPERY == 0 and run.attempt == 1:
        raise Slipped(f"order {order} fell off the table")
    ledger.finish(name, run.epoch)


@app.task(priority=50)
def deliver(run: Run, parcel: str) -> None:
    """A slow one-off task, so that its worker can be killed or frozen in the middle; an heir is quicker."""
    name, seconds = f"deliver {parcel}", SLOW if run.epoch == 1 else 1.0
    ledger.start(name, run.epoch)
    started = time.monotonic()
    while (passed := time.monotonic() - started) < seconds:
        run.progress(passed, seconds)
        time.sleep(0.05)
    ledger.finish(name, run.epoch)


@app.schedule(every="1s", name=CLOCK, missed="all")
@app.task
def strike(run: Run) -> None:
    """A scheduled task: once per second, whoever lives to do it."""
    assert run.tick is not None
    name = f"strike {run.tick.isoformat()}"
    ledger.start(name, run.epoch)
    ledger.finish(name, run.epoch)


@app.perpetual(every="500ms", automatic=True)
async def look_around(run: Run) -> None:
    """A perpetual task: asks to run again, a little sooner while orders wait."""
    run.again(after="400ms")
