"""What a claim looks at before it lends, read in one statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from duly.stores.contract import Lane, Scope
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.batch import unpack
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World

SQL = statements("look")

FOREVER: Final = 2**63 - 1
"""How long a switch holds that names no time."""


class Borrower(NamedTuple):
    """A worker with jobs on loan."""

    worker: str
    host: str | None
    lease_until: int | None

    def has_lease(self, boot: int) -> bool:
        return self.lease_until is not None and self.lease_until > boot


class Track(NamedTuple):
    """Jobs of one queue, task and priority: within it they are lent in the order they became ready."""

    queue: str
    task: str
    rank: int
    first_ready_at: int


class Holds:
    """The switches in force."""

    def __init__(self, switches: Mapping[tuple[str, str], int | None]) -> None:
        self._switches = switches

    def on(self, lane: Lane, queue: str) -> int | None:
        """None when the lane moves; else until when it is held."""
        if not self._switches:
            return None
        names = [(Scope.QUEUE, queue), *((Scope.TASK, task) for task in (lane.task, *lane.held_by))]
        for name in names:
            if name in self._switches:
                until = self._switches[name]
                return FOREVER if until is None else until
        return None


class Look(NamedTuple):
    """What stands around a claim."""

    is_present: bool
    """The worker has a lease in force."""
    borrowers: list[Borrower]
    """Every worker with a job on loan, alive or not."""
    late: list[tuple[str, str]]
    """Queue and task of jobs that nobody wants any more."""
    holds: Holds
    tracks: list[Track]

    @classmethod
    def read(cls, world: World, worker: str = "") -> Steps[Look]:
        about = {"worker": worker, "now": world.now} | world.moment.lease()
        ((is_present, borrowers, late, switches, tracks),) = yield Statement(SQL["look"], about)
        return cls(
            bool(is_present),
            [Borrower(*values) for values in unpack(borrowers)],
            [(queue, task) for queue, task in unpack(late)],
            Holds({(scope, name): until for scope, name, until in unpack(switches)}),
            [Track(*values) for values in unpack(tracks)],
        )
