"""Exactly-once effects: the row a body wrote is there once if its job is done, else not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.chaos.checker.history import History
from tests.chaos.checker.witness import Witness


def exactly_once_effect(history: History) -> Iterator[Witness]:
    """One effect per job that is done, none for any other."""
    if history.effects is None:
        return
    counts = Counter(effect.token.rpartition("-")[0] for effect in history.effects)
    jobs = {row.id: row for row in history.last if history.task(row.task).delivery == "exactly_once"}
    history.judged["ExactlyOnceEffect"] += len(jobs)
    for job, count in counts.items():
        row = jobs.get(job)
        if count > 1 or row is None or row.state != "done":
            found = tuple(effect for effect in history.effects if effect.token.rpartition("-")[0] == job)
            state = "unknown" if row is None else row.state
            says = f"job {job} is {state} and has {count} effects"
            yield Witness("ExactlyOnceEffect", says, (*found, *([row] if row else [])))
    for row in jobs.values():
        if row.state == "done" and not counts[row.id]:
            yield Witness("ExactlyOnceEffect", f"job {row.id} is done and has no effect", (row,))
