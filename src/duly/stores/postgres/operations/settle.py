"""settle: per claim all or nothing — verdict, history line and follow-up requests, under the fence.

Most runs end without anybody having said a word about them meanwhile. Those are settled together, one
statement for all that ended and one for all that go on; the others one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from duly.job import FINISHED, State
from duly.lifecycle import Settled
from duly.stores.contract import Settlement
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations import serials
from duly.stores.postgres.operations.again import Repeat
from duly.stores.postgres.operations.arrays import integers
from duly.stores.postgres.operations.arrivals import arrived, keyed
from duly.stores.postgres.operations.company import NOTHING, Following, look_round
from duly.stores.postgres.operations.conclude import settle_row
from duly.stores.postgres.operations.fences import Loan, read
from duly.stores.postgres.operations.put import place_arrivals
from duly.stores.postgres.operations.rows import Row
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.together import Sheaf, sheaves
from duly.stores.postgres.operations.world import World

SQL = statements("settle")


def settle(world: World, worker: str, settlements: Sequence[Settlement]) -> Steps[list[Settled]]:
    """Settle a batch."""
    answers = yield from settle_swiftly(world, worker, settlements)
    yield from confirm(answers.settled)
    return answers.in_order()


@dataclass(slots=True)
class Answers:
    """What became of each settlement of a batch, and which were settled on sight."""

    by_place: dict[int, Settled] = field(default_factory=dict[int, Settled])
    settled: list[int] = field(default_factory=list[int])
    """Generations settled without the row of the loan having been locked first."""
    places: list[int] = field(default_factory=list[int])
    """Where in the batch these were."""

    def in_order(self) -> list[Settled]:
        return [answer for _, answer in sorted(self.by_place.items())]


class Disturbed(Repeat):
    """Somebody said something about a run while it was being settled on sight: settle it with care."""


def confirm(settled: Sequence[int]) -> Steps[None]:
    """Whoever speaks of a run locks its loan first, so what was said before we had it is to be seen now."""
    if settled and (yield Statement(SQL["spoken_of"], {"generations": integers(settled)})):
        raise Disturbed


def settle_swiftly(world: World, worker: str, settlements: Sequence[Settlement]) -> Steps[Answers]:
    """Settle a batch; the caller must `confirm` what was settled on sight before it commits."""
    loans = [read(settlement.fence) for settlement in settlements]
    answers = Answers()
    if world.is_wary:
        yield from _find_busy(loans, answers)
    company = NOTHING
    if not world.moment.is_guest:  # there, what is to be seen may not be all there is
        company = yield from look_round(world, settlements, loans)
        for sheaf in sheaves(world, settlements, loans, but_for=company.entangled.union(answers.by_place)):
            yield from _settle_together(sheaf, company.quiet, answers)
    following = Following(company.following, answers.places)
    left = [place for place in range(len(settlements)) if place not in answers.by_place]
    if left:
        yield from _settle_singly(world, worker, settlements, loans, left, answers, following)
    yield from place_arrivals(world, following.before(inf))
    return answers


def _find_busy(loans: Sequence[Loan | None], answers: Answers) -> Steps[None]:
    """Somebody's transaction holds the row of the loan: nothing is decided, ask again."""
    wanted = [loan.generation for loan in loans if loan is not None]
    busy = {generation for (generation,) in (yield Statement(SQL["busy"], {"generations": integers(wanted)}))}
    for place, loan in enumerate(loans):
        if loan is not None and loan.generation in busy:
            answers.by_place[place] = Settled.BUSY


def _settle_together(sheaf: Sheaf, quiet: str, answers: Answers) -> Steps[None]:
    found = yield Statement(SQL[sheaf.name], sheaf.parameters | {"quiet": quiet})
    for (generation,) in found:
        place = sheaf.places[generation]
        answers.by_place[place] = Settled.SETTLED
        answers.settled.append(generation)
        answers.places.append(place)


# --- one claim, whatever happened meanwhile -----------------------------------------------------


def _settle_singly(
    world: World,
    worker: str,
    settlements: Sequence[Settlement],
    loans: Sequence[Loan | None],
    left: Sequence[int],
    answers: Answers,
    following: Following,
) -> Steps[None]:
    held = yield from _hold(world, [settlements[place] for place in left], [loans[place] for place in left])
    for place in left:
        yield from place_arrivals(world, following.before(place))
        settlement = settlements[place]
        row = yield from world.named(settlement.fence.id)
        if row is not None and is_recorded(row, settlement):
            answers.by_place[place] = Settled.SUPERSEDED if row.superseded_by else Settled.SETTLED
        elif row is None or not fence_holds(row, settlement):
            yield from _refuse(world, worker, row, settlement)
            answers.by_place[place] = Settled.LOST
        elif not held.covers(row, settlement, world):
            answers.by_place[place] = Settled.BUSY
        else:
            answers.by_place[place] = yield from settle_row(world, row, settlement)


@dataclass(frozen=True, slots=True)
class Held:
    """What is locked for settling with care."""

    runs: frozenset[int]
    serials: frozenset[str]

    def covers(self, row: Row, settlement: Settlement, world: World) -> bool:
        needed = keyed(arrived(request, world.now) for request in settlement.then)
        if row.serial is not None:
            needed.add(row.serial)
        return row.generation in self.runs and needed <= self.serials


def _hold(world: World, settlements: Sequence[Settlement], loans: Sequence[Loan | None]) -> Steps[Held]:
    """Lock the serials they speak of, then the loans themselves."""
    follow_ups = [request for settlement in settlements for request in settlement.then]
    world.book.prepare(follow_ups)
    generations = [loan.generation for loan in loans if loan is not None]
    own = yield from serials.of_runs(generations)
    wished = keyed(arrived(request, world.now) for request in follow_ups)
    held = yield from serials.hold(world, wished.union(own.values()))
    text = SQL["try_hold" if world.is_wary else "hold"]
    runs = yield Statement(text, {"generations": integers(generations)})
    return Held(frozenset(generation for (generation,) in runs), frozenset(held))


def fence_holds(row: Row, settlement: Settlement) -> bool:
    """The one condition of every write by a worker."""
    return row.state is State.RUNNING and is_of_loan(row, settlement)


def is_recorded(row: Row, settlement: Settlement) -> bool:
    """This very claim ended the job: the answer was lost on the way, and the worker asks again."""
    return row.state in FINISHED and is_of_loan(row, settlement)


def is_of_loan(row: Row, settlement: Settlement) -> bool:
    loan = read(settlement.fence)
    return loan is not None and (row.generation, row.epoch, row.seed) == loan[:3]


def _refuse(world: World, worker: str, row: Row | None, settlement: Settlement) -> Steps[None]:
    yield from world.tally("refused")
    if row is not None:
        verdict = type(settlement.verdict).__name__
        yield from world.note(row, "refused", f"late {verdict} by {worker} at epoch {settlement.fence.epoch}")
