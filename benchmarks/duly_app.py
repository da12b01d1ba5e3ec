"""The application whose worker is measured: Duly as it is by default, and bodies that only stamp a slot."""

from __future__ import annotations

import os
import time

from benchmarks import place
from benchmarks.slots import given
from duly import Duly, Run

app = Duly(place.url())
stamp = given().stamper()
MARK = "?" if place.url().startswith("sqlite") else "%s"


@app.task
async def noop(number: int) -> None:
    stamp(number)


@app.task
def noop_sync(number: int) -> None:
    stamp(number)


@app.task
def millisecond(number: int) -> None:
    stamp(number)
    time.sleep(0.001)


@app.task(delivery="at_least_once" if place.url().startswith("redis") else "exactly_once")
def effect(run: Run, number: int) -> None:
    run.connection.execute(f"insert into effect (number) values ({MARK})", (number,))
    stamp(number)


@app.task
async def tick(run: Run, schedule: int) -> None:
    """One slot for each schedule and second since the origin."""
    assert run.tick is not None
    second = round(run.tick.timestamp()) - int(os.environ[place.ORIGIN])
    if second >= 0:
        stamp(second * schedules + schedule)


schedules = int(os.environ.get(place.SCHEDULES, "0"))
for each in range(schedules):
    app.schedule(every="1s", name=f"each second {each}", args=(each,))(tick)
