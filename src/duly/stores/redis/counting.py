"""count, census: how many jobs there are, from the counts that every write keeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duly.job import LIVE, State
from duly.stores.contract import Census, Selection
from duly.stores.drive import Statement, Steps
from duly.stores.redis.find import all_ids
from duly.stores.redis.moment import instant


def count(selection: Selection) -> Steps[int]:
    """From the counts that are kept anyway, unless the selection names jobs."""
    names_error = selection.fingerprint is not None or bool(selection.error)
    if selection.ids or selection.key is not None or names_error:
        return len((yield from all_ids(selection, None)))
    counted = yield from census()
    return sum(
        number
        for (task, queue, state), number in counted.jobs.items()
        if (not selection.tasks or task in selection.tasks)
        and (not selection.queues or queue in selection.queues)
        and (not selection.states or state in selection.states)
    )


def census(*, with_finished: bool = True) -> Steps[Census]:
    """Counts for people; those of finished jobs come for nothing."""
    counts, oldest = yield Statement("census", {})
    jobs = {
        (task, queue, State(state)): number
        for state, task, queue, number in _fours(counts)
        if with_finished or State(state) in LIVE
    }
    words = {count[0]: count[1] for count in counts if len(count) == 2}
    return Census(
        jobs,
        {queue: instant(at) for queue, at in oldest},
        words.get("suppressed", 0),
        words.get("refused", 0),
        words.get("superseded", 0),
        has_finished=with_finished,
    )


def _fours(counts: Sequence[Any]) -> list[Any]:
    return [count for count in counts if len(count) == 4]
