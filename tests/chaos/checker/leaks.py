"""What must not be left behind, processes, loans, descriptors, threads; and who must not fall over."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.checker.history import History, Life
from tests.chaos.checker.witness import Witness

ORPHANED = 1.5
DESCRIPTORS = 150
THREADS = 60
ENDS = (0, 3, -9, -15)
"""Told to stop, no store, SIGKILL, SIGTERM before it could listen."""


def no_leak(history: History) -> Iterator[Witness]:
    """At rest nothing is on loan, no process outlives its worker, and nobody hoards."""
    for orphan in history.orphans:
        frozen = any(fault.ended > orphan.since - 1 for fault in history.frozen(orphan.worker))
        late = orphan.seen - orphan.since
        if late > ORPHANED + history.slack(orphan.since, orphan.seen) and not frozen:
            yield Witness(
                "NoLeak", f"process {orphan.pid} outlived {orphan.worker} by {late:.1f} s", (orphan,)
            )
    for seen in history.vitals:
        if seen.descriptors > DESCRIPTORS or seen.threads > THREADS:
            yield Witness("NoLeak", f"{seen.worker} hoards descriptors or threads", (seen,))
    if all(life.code == 0 for life in _left_at_the_end(history)):
        for row in history.last:
            if row.state == "running":
                yield Witness("NoLeak", f"job {row.id} is on loan to nobody", (row,))


def no_collapse(history: History) -> Iterator[Witness]:
    """A worker ends because it was told to, was killed, or could not open its store; never by itself."""
    for life in history.lives:
        if life.code is not None and life.code not in ENDS:
            yield Witness("NoCollapse", f"{life.name} ended with {life.code}; its log says why", (life,))


def _left_at_the_end(history: History) -> list[Life]:
    return [life for life in history.lives if life.name.startswith("w") and life.died > history.drained_at]
