"""When things happen: once per tick, every tick, and nothing before it is due."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.checker.history import History
from tests.chaos.checker.witness import Witness

TOLERANCE = 0.05
COMPLETE = {"ticked": 1.0}
"""Tasks whose schedule promises every tick, and the seconds between two."""


def one_tick(history: History) -> Iterator[Witness]:
    """One job per schedule and instant, however many workers looked at the clock."""
    jobs: dict[tuple[str, float], set[str]] = defaultdict(set)
    seen = [(row.task, row.tick, row.id) for row in history.last]
    seen += [(body.task, body.tick, body.id) for body in history.bodies]
    for task, tick, job in seen:
        if tick is not None:
            jobs[task, tick].add(job)
    for (task, tick), ids in jobs.items():
        if len(ids) > 1:
            rows = [row for row in history.last if row.id in ids]
            yield Witness("OneTick", f"{task} has {len(ids)} jobs for the tick {tick}", tuple(rows))


def tick_complete(history: History) -> Iterator[Witness]:
    """With missed="all" no instant between the first and the last is left out."""
    for task, every in COMPLETE.items():
        ticks = sorted({row.tick for row in history.last if row.task == task and row.tick is not None})
        if not ticks:
            continue
        count = round((ticks[-1] - ticks[0]) / every) + 1
        missing = {ticks[0] + number * every for number in range(count)} - set(ticks)
        if missing:
            says = f"{task} has no job for {len(missing)} ticks, the first at {min(missing)}"
            yield Witness("TickComplete", says)


def never_early(history: History) -> Iterator[Witness]:
    """Nothing is lent before it is due by the store's clock, nor starts before its wait is over."""
    for loan in history.loans:
        is_first = loan.epoch == 1  # a job that was handed back may be lent at once, by whatever clock
        if is_first and loan.now is not None and loan.due > loan.now + 0.001 and loan.queue == "default":
            says = f"job {loan.id} was lent {loan.due - loan.now:.3f} s before it was due"
            yield Witness("NeverEarly", says, (loan,))
    waits = {asked.op: asked for asked in history.asked if asked.delay and asked.key is None}
    for body in history.bodies:
        asked = waits.get(body.op)
        if asked is None or history.stepped_between(asked.called, body.started):
            continue
        if body.started < asked.called + asked.delay - TOLERANCE:
            yield Witness("NeverEarly", f"{body.op} did not wait {asked.delay} s", (asked, body))
