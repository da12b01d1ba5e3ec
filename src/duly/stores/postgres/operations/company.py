"""The company a settlement keeps: what else the batch, or the store, has to say about the same serials.

Runs that keep none are settled together. The others take their turn, one after the other, because what each
finds depends on the one before; and follow-up requests are placed in the order of the batch, as many at once
as nobody's turn comes between.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from duly.stores.contract import Settlement
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations import serials
from duly.stores.postgres.operations.arrays import integers, restored, words
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
    """Serials that are ours for now, of which only one run speaks and for which nothing waits; an array."""
    entangled: frozenset[int]
    """Places in the batch whose follow-up requests matter to a run in it, be it the one that asks."""
    following: Mapping[int, Sequence[Arrival]]
    """The follow-up requests of each place."""


class Following:
    """Follow-up requests of what was settled together, placed when their turn in the batch has come."""

    def __init__(self, following: Mapping[int, Sequence[Arrival]], places: Iterable[int]) -> None:
        self._left = deque((place, following[place]) for place in sorted(places) if place in following)

    def before(self, place: float) -> list[Arrival]:
        """Those of earlier places that were not asked for yet."""
        arrivals: list[Arrival] = []
        while self._left and self._left[0][0] < place:
            arrivals += self._left.popleft()[1]
        return arrivals


NOTHING: Final = Company("{}", frozenset(), {})


def look_round(world: World, settlements: Sequence[Settlement], loans: Loans) -> Steps[Company]:
    """Take the serials that a batch speaks of, and see who else does."""
    following = _following(world, settlements)
    wished = {place: keyed(arrivals) for place, arrivals in following.items()}
    wishes = set[str]().union(*wished.values())
    own = Counter((yield from _own(loans)))
    held = yield from serials.hold(world, wishes.union(own))
    entangled = {place for place, about in wished.items() if not about <= held - own.keys()}
    entangled |= yield from _asking_for_themselves(world, following, loans)
    alone = {serial for serial in held - wishes if own[serial] == 1}
    quiet = yield from _not_waited_for(alone)
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


def _not_waited_for(alone: set[str]) -> Steps[set[str]]:
    if not alone:
        return alone
    waited_for = yield Statement(SQL["waited_for"], {"serials": words(sorted(alone))})
    return alone - {serial for (serial,) in waited_for}


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
        generation: (world.book.track(lane).task, restored(key))
        for generation, lane, key in found
        if key is not None
    }
    return {
        place
        for place, generation in generations.items()
        if names.get(generation) in {(one.request.task, one.request.key) for one in following[place]}
    }
