"""Whether both sides hold the same, read the way everybody reads: not by the code that carried it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from duly.job import Job, State
from duly.stores.contract import Page, Selection
from duly.stores.house import Furniture, House

PAGE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What a store holds, in numbers, and a digest of what matters of every job."""

    states: Mapping[State, int]
    digest: str
    furniture: Furniture

    @property
    def jobs(self) -> int:
        """How many jobs there are."""
        return sum(self.states.values())

    def counts(self) -> dict[str, int]:
        """For people: jobs by state, and everything beside them."""
        kept = self.furniture
        return {state: self.states[state] for state in State if self.states.get(state)} | {
            "guards": len(kept.windows),
            "stop markers": len(kept.markers),
            "pauses": len(kept.switches),
            "records": len(kept.notes),
            "locks": len(kept.locks),
        }


class Difference(NamedTuple):
    """Something that is not the same on both sides."""

    what: str
    source: object
    target: object


def taken_stock(store: House) -> Inventory:
    """Walk through a store, newest job first."""
    states: Counter[State] = Counter()
    digest = hashlib.sha256()
    before: int | None = None
    while page := store.run(store.find(Selection(), Page(limit=PAGE, before=before, with_history=True))):
        for job in page:
            states[job.state] += 1
            digest.update(repr(_facts(job)).encode())
        before = page[-1].generation
    return Inventory(states=states, digest=digest.hexdigest(), furniture=store.run(store.furniture()))


def _facts(job: Job) -> list[object]:
    named = [job.id, job.task, job.queue, job.priority, job.key, job.serial, str(job.state), job.is_parked]
    counted = [job.generation, job.epoch, job.attempt, job.crashes, job.deferrals, job.cycle]
    when = [job.ready_at, job.due, job.expires_at, job.tick, job.created_at, job.finished_at]
    said = [job.arguments, job.result, job.error, job.reason, len(job.history)]
    return [*named, *counted, *(None if moment is None else moment.timestamp() for moment in when), *said]


def compared(source: Inventory, target: Inventory) -> list[Difference]:
    """What differs. Locks are told apart by their tokens: the time they have left goes on running."""
    found = [
        Difference("jobs by state", dict(source.states), dict(target.states)),
        Difference("digest of all jobs", source.digest, target.digest),
    ]
    found += [
        Difference(name, _shown(name, source.furniture), _shown(name, target.furniture))
        for name in ("tallies", "windows", "markers", "switches", "locks", "notes")
    ]
    differing = [one for one in found if one.source != one.target]
    if target.furniture.last_number < source.furniture.last_number:
        counters = (source.furniture.last_number, target.furniture.last_number)
        differing.append(Difference("generation counter", *counters))
    return differing


def _shown(name: str, furniture: Furniture) -> object:
    if name == "tallies":
        return dict(furniture.tallies)
    if name == "locks":
        return sorted((lock.name, lock.owner, lock.token) for lock in furniture.locks)
    pieces = getattr(furniture, name)
    return list(pieces) if name == "switches" else sorted(pieces)
