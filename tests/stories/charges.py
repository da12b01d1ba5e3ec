"""Exactly-once bodies for child processes, which find them by importing this module.

The store is DULY_URL, the table of effects STORY_TABLE; bodies leave notes in STORY_FOLDER as in errands.py.
"""

from __future__ import annotations

import os
import time

from tests.stories.errands import lines, note, wait_for

from duly import Duly, Retry, Run, SoftLimitExceeded

app = Duly()


def insert(amount: int) -> str:
    return f"insert into {os.environ['STORY_TABLE']} values ({amount})"


@app.task(delivery="exactly_once", executor="process", keep_result="1h")
def charge_in_child(run: Run, amount: int) -> int:
    run.connection.execute(insert(amount))
    return os.getpid()


@app.task(delivery="exactly_once", executor="process")
async def charge_on_childs_loop(run: Run, amount: int) -> None:
    await run.connection.execute(insert(amount))


LATE_ALREADY = Retry(on=SoftLimitExceeded, attempts=5, backoff="fixed", first="0s")
"""A busy machine may need all the time that there is before the commit: then once more."""


@app.task(delivery="exactly_once", executor="process", soft_limit="3s", retry=LATE_ALREADY)
def charge_within(run: Run, amount: int) -> None:
    run.connection.execute(insert(amount))


@app.task(delivery="exactly_once", executor="process", soft_limit="3s", retry=LATE_ALREADY)
async def charge_within_on_loop(run: Run, amount: int) -> None:
    await run.connection.execute(insert(amount))


@app.task(delivery="exactly_once", executor="process")
def fail_in_child(run: Run, amount: int) -> None:
    run.connection.execute(insert(amount))
    raise ValueError("no credit")


@app.task(delivery="exactly_once", executor="process")
def die_once(run: Run, amount: int) -> None:
    run.connection.execute(insert(amount))
    note("deaths", run.epoch)
    if len(lines("deaths")) == 1:
        os._exit(9)


@app.task(
    delivery="exactly_once",
    hard_limit="1s",
    retry=Retry(on=OSError, attempts=20, backoff="fixed", first="0s"),
)
def stuck_at_first(run: Run, amount: int) -> None:
    run.connection.execute(insert(amount))
    if run.attempt == 1:
        time.sleep(30)


@app.task(delivery="exactly_once", executor="process")
def wait_in_child(run: Run, amount: int, name: str) -> None:
    run.connection.execute(insert(amount))
    note("started", run.epoch)
    wait_for(name)


@app.task(delivery="exactly_once")
def idle_for(run: Run, seconds: float) -> None:
    """Says nothing in its transaction for so long, in its first run."""
    run.connection.execute(insert(run.epoch))
    if run.epoch == 1:
        time.sleep(seconds)
