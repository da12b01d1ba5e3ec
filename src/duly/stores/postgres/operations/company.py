"""The company a settlement keeps: what else the batch, or the store, has to say about the same serials.

Runs that keep none are settled together, and their follow-up requests placed together. The others take
their turn, one after the other, because what each finds depends on the one before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from duly.stores.contract import Settlement
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations import serials
from duly.stores.postgres.operations.arrays import integers, restored_or_none, words
from duly.stores.postgres.operations.arrivals import arrived, keyed
from duly.stores.postgres.operations.fences import Loan
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.arrivals import Arrival

SQL = statements("settle")

Loans = Sequence[Loan | None]


@dataclass(frozen=True, slots=True)
class Company:
    """What is known of a batch before any of it is settled."""

    quiet: str
    """Serials that are ours for now, for which nothing waits and of which one run alone speaks; an array."""
    entangled: frozenset[int]
    """Places in the batch whose follow-up requests must be placed in their turn."""
    following: dict[int, list[Arrival]]

    def arrivals(self, places: Iterable[int]) -> list[Arrival]:
        """The follow-up requests of these places, in order."""
        return [arrival for place in sorted(places) for arrival in self.following.get(place, ())]


def look_round(world: World, settlements: Sequence[Settlement], loans: Loans) -> Steps[Company]:
    """Take the serials that a batch speaks of, and see who else does."""
    following = _following(world, settlements)
    wished = {place: keyed(arrivals) for place, arrivals in following.items()}
    own = yield from _own(loans)
    spoken = Counter([*own, *(serial for wishes in wished.values() for serial in wishes)])
    held = yield from serials.hold(world, spoken)
    free = {serial for serial in held if spoken[serial] == 1}
    entangled = {place for place, wishes in wished.items() if not wishes <= free}
    entangled |= yield from _asking_for_themselves(world, following, loans)
    quiet = yield from _not_waited_for(free.intersection(own))
    return Company(words(sorted(quiet)), frozenset(entangled), following)


def _own(loans: Loans) -> Steps[list[str]]:
    """The serials of the runs themselves."""
    with_serial = [loan.generation for loan in loans if loan is not None and loan.has_serial]
    if not with_serial:
        return []
    found = yield from serials.of_runs(with_serial)
    return list(found.values())


def _following(world: World, settlements: Sequence[Settlement]) -> dict[int, list[Arrival]]:
    world.book.prepare(request for settlement in settlements for request in settlement.then)
    return {
        place: [arrived(request, world.now) for request in settlement.then]
        for place, settlement in enumerate(settlements)
        if settlement.then
    }


def _not_waited_for(free: set[str]) -> Steps[set[str]]:
    if not free:
        return free
    waited_for = yield Statement(SQL["waited_for"], {"serials": words(sorted(free))})
    return free - {serial for (serial,) in waited_for}


def _asking_for_themselves(
    world: World, following: Mapping[int, Sequence[Arrival]], loans: Loans
) -> Steps[set[int]]:
    """Runs that wish for their own key, by whatever serial: such a wish is part of how they end."""
    generations = {place: loan.generation for place in following if (loan := loans[place]) is not None}
    if not generations:
        return set()
    yield from world.book.update(world.moment)
    found = yield Statement(SQL["names"], {"generations": integers(set(generations.values()))})
    names = {
        generation: (world.book.track(lane).task, restored_or_none(key)) for generation, lane, key in found
    }
    return {
        place
        for place, generation in generations.items()
        if names.get(generation) in {(one.request.task, one.request.key) for one in following[place]}
    }
