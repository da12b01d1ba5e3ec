"""Ends of which nobody knows whether they were committed: the store is asked before anything is said.

A COMMIT whose answer was lost, `run.complete` in a transaction of the body's own, a child process that died
around its commit: all leave the same question, and the line in the job's history answers it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from duly.errors import StoreError
from duly.lifecycle import Settled
from duly.stores.contract import Store
from duly.worker.endings import Concluded
from duly.worker.transaction import is_settled_by, look_up

log = logging.getLogger("duly.worker")


class Sorted(NamedTuple):
    """Ends that were committed, and those that were not (yet)."""

    settled: list[Concluded]
    others: list[Concluded]


def sort_out(store: Store, ends: Sequence[Concluded]) -> Sorted:
    """Look at all of them at once.

    One that is found uncommitted may still commit: its COMMIT is on its way. Settling it otherwise is safe,
    because the store lets only one of the two happen; whoever does so looks again afterwards.
    """
    jobs = {job.id: job for job in store.run(look_up(store, [end.holding.claim.id for end in ends]))}
    found = Sorted([], [])
    for end in ends:
        job = jobs.get(end.holding.claim.id)
        if job is not None and end.meant is not None and is_settled_by(job, end.holding.claim.fence):
            found.settled.append(replace(end, verdict=end.meant, answer=Settled.SETTLED, meant=None))
        else:
            found.others.append(end)
    return found


def seen_again(store: Store, end: Concluded, answer: Settled) -> tuple[Concluded, Settled]:
    """A COMMIT that was on its way when we looked may have come first after all."""
    if end.meant is None:
        return end, answer
    try:
        settled = sort_out(store, [end]).settled
    except StoreError as error:
        log.warning("job %s: its end cannot be looked up: %s", end.holding.claim.id, error)
        return end, answer
    return (settled[0], Settled.SETTLED) if settled else (end, answer)
