"""What the tests of reactive stores say over and over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tests.reactive.places import Place

from duly import codec
from duly.job import Claim, Job, State
from duly.lifecycle import Done, Settled, Verdict
from duly.reactive.change import Facts, Found
from duly.reactive.reaction import Reaction
from duly.reactive.tables import table_of
from duly.stores.changes import Condition, Glance, Planned, Standing, Tended
from duly.stores.contract import Ask, Lane, Page, Selection, Settlement
from duly.testing import VirtualClock

TASK = "receipt"
LEASE = timedelta(seconds=30)


def reaction(**fields: Any) -> Reaction:
    """Paid orders, by their status and total."""
    given: dict[str, Any] = {
        "task": TASK,
        "table": table_of(fields.pop("table", "orders")),
        "where": "status = 'paid'",
        "watch": ("status", "total"),
        **fields,
    }
    return Reaction(**given)


@dataclass(frozen=True)
class Shop:
    """A store that follows tables, its user, and a worker in miniature."""

    place: Place
    clock: VirtualClock

    # the user

    def say(self, text: str) -> list[tuple[Any, ...]]:
        return self.place.user.say(text)

    def order(self, number: int, status: str = "paid", total: int = 10) -> None:
        self.say(f"insert into orders (id, status, total) values ({number}, '{status}', {total})")

    # the engine

    def follow(self, *reactions: Reaction) -> None:
        """Bring definitions and install what they need; whatever scans they ask for are made."""
        store = self.place.store
        store.run(store.adopt(reactions or (reaction(),)))
        for one in reactions or (reaction(),):
            tended = self.tend(one.task)
            assert tended.condition is Condition.ACTIVE, tended.note
        self.settle_down()

    def tend(self, task: str = TASK) -> Tended:
        return self.place.store.run(self.place.store.tend(task))

    def plan(self, limit: int = 1000) -> Planned:
        return self.place.store.run(self.place.store.plan(limit))

    def settle_down(self, limit: int = 1000) -> int:
        """Plan and scan until nothing is left; answers how many runs were put."""
        runs = 0
        while True:
            planned = self.plan(limit)
            runs += planned.runs
            if not planned.changes and self.place.store.run(self.place.store.scan(limit)) is None:
                return runs

    def standing(self, task: str = TASK) -> Standing:
        found = self.place.store.run(self.place.store.standings())
        return next(one for one in found if one.reaction.task == task)

    # the worker

    def claim(self, *tasks: str) -> Sequence[Claim]:
        lanes = {task: Lane(task) for task in tasks or (TASK,)}
        ask = Ask(worker="w1", lanes=lanes, lease=LEASE, limit=1000, free=1000)
        return self.place.store.run(self.place.store.claim(ask)).claims

    def settle(self, claim: Claim, verdict: Verdict | None = None) -> Settled:
        ended = Settlement(claim.fence, verdict or Done())
        return self.place.store.run(self.place.store.settle("w1", [ended]))[0]

    def work(self, *tasks: str) -> list[Facts]:
        """Run everything that is due, well; answers what each was told."""
        claims = self.claim(*tasks)
        for claim in claims:
            assert self.settle(claim) is Settled.SETTLED
        return [facts_of(claim) for claim in claims]

    def jobs(self, *states: State, task: str = TASK) -> list[Job]:
        selection = Selection(tasks=(task,), states=tuple(states))
        return self.place.store.run(self.place.store.find(selection, Page(1000, with_history=True)))

    def read(self, facts: Facts, columns: Sequence[str] | None = None, task: str = TASK) -> Found | None:
        glance = Glance(task, facts, None if columns is None else tuple(columns))
        return self.place.store.run(self.place.store.read_row(glance))


def facts_of(claim: Claim) -> Facts:
    (plain,), _ = codec.unpack(claim.arguments)
    return Facts.read(plain)


def keys(told: Sequence[Facts]) -> list[Any]:
    """The keys of runs, in order."""
    return sorted(facts.key[0] if len(facts.key) == 1 else facts.key for facts in told)
