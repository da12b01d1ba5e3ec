"""claim: lend ready jobs. Never two valid leases on one job, never one that is not yet due.

One look tells whether anything needs attention first: a worker that died, a job that expired, a switch.
The cost of the rest follows what is lent and the number of lanes, not what waits or what was.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from duly.stores.contract import Ask, Claimed
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.arrays import integers
from duly.stores.postgres.operations.expire import expire
from duly.stores.postgres.operations.lanes import Holds, Track, serves
from duly.stores.postgres.operations.lend import Lending
from duly.stores.postgres.operations.loads import Count, Loads
from duly.stores.postgres.operations.recover import recover
from duly.stores.postgres.operations.room import Room
from duly.stores.postgres.operations.settle import confirm
from duly.stores.postgres.operations.sight import PAUSE, START, Point, Sight
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.instants import instant, instant_or_none, span
from duly.stores.tables.room import SOON, is_limited

SQL = statements("claim")
LOOK: Final = SQL["look"].replace("{loads}", SQL["loads"])

Served = list[tuple[int, Track]]


class Look(NamedTuple):
    """What a claim sees before it begins."""

    counting: Count
    """How `loans` were asked for."""
    worker: int | None
    has_lease: bool
    is_somebody_dead: bool
    is_something_late: bool
    switches: list[list[Any]] | None
    is_somebody_spoken_of: bool
    is_a_serial_on_loan: bool
    ready: list[int] | None
    """Lanes with a limit that have something to lend."""
    loans: list[list[int]] | None
    """Of the lanes of tasks with a limit, as `Loads` asks for them."""

    @property
    def lanes(self) -> set[int]:
        return set(self.ready or ())


def claim(world: World, sight: Sight, loads: Loads, ask: Ask, settled: Sequence[int] = ()) -> Steps[Claimed]:
    """Lend; `settled` was settled on sight in the same transaction and is to be confirmed."""
    yield from world.book.update(world.moment)
    served = [(number, track) for number, track in world.book.items() if serves(ask, track)]
    points = sight.points([number for number, _ in served], world.now)
    return (yield from Claiming(world, sight, loads, ask, served, points).claim(settled))


@dataclass(slots=True)
class Claiming:
    """One claim: what is remembered, who asks for what, and from where on each lane is looked at."""

    world: World
    sight: Sight
    loads: Loads
    ask: Ask
    served: Served
    points: dict[int, Point]

    def claim(self, settled: Sequence[int]) -> Steps[Claimed]:
        look = yield from self._look()
        if look.is_somebody_spoken_of:
            yield from confirm(settled)
        worker = look.worker if look.worker and look.has_lease else (yield from self._be_present())
        is_something_back = False
        if self.ask.takes_over and look.is_somebody_dead:
            is_something_back = yield from recover(self.world, worker)
        if is_something_back:
            # Should this not be committed, it is not back: that it was seen is not to be remembered.
            self.loads = Loads()
        if look.is_something_late or is_something_back:  # what comes back may have come too late
            yield from expire(self.world, [number for number, _ in self.served])
            look = yield from self._look()
        hidden = [number for number in self._limited if self.points[number][1] and number not in look.lanes]
        if hidden and self.sight.may_look_back(hidden, self.world.now):
            self.sight.look_back(hidden, self.world.now)
            self.points |= dict.fromkeys(hidden, START)
            look = yield from self._look()
        return (yield from self._lend(worker, look))

    @property
    def _limited(self) -> list[int]:
        """Lanes of tasks with a limit."""
        return [number for number, track in self.served if is_limited(self.ask.lanes[track.task])]

    def _counted(self) -> list[int]:
        """Lanes, served or not, over which those limits count."""
        book = self.world.book
        tasks = {book.track(number).task for number in self._limited}
        return [number for number, track in book.items() if track.task in tasks]

    def _look(self) -> Steps[Look]:
        limited, now = self._limited, self.world.now
        lanes = {
            "lanes": integers([number for number, _ in self.served]),
            "limited": integers(limited),
            "since": integers([self.points[number][0] for number in limited]),
            "after": integers([self.points[number][1] for number in limited]),
        }
        moment = {"now": now, "boot": self.world.moment.boot, "worker": self.ask.worker}
        count = self.loads.asked(self._counted(), now)
        (seen,) = yield Statement(LOOK, lanes | moment | count.parameters)
        return Look(count, *seen)

    def _be_present(self) -> Steps[int]:
        """A worker that claims has a lease, even before its first beat."""
        lease_until = self.world.moment.boot + span(self.ask.lease)
        presence = {"worker": self.ask.worker, "now": self.world.now, "lease_until": lease_until}
        ((number,),) = yield Statement(SQL["present"], presence)
        return int(number)

    def _lend(self, worker: int, look: Look) -> Steps[Claimed]:
        world, ask = self.world, self.ask
        holds = Holds({(scope, name): until for scope, name, until in look.switches or ()})
        moving = [(lane, track) for lane, track in self.served if self._hold(holds, track) is None]
        moves = {number for number, _ in moving}
        running = self.loads.learn(look.counting, look.loans or ())
        room = yield from Room.read(world, ask, [*look.lanes & moves], running, self.loads)
        lending = Lending(world, ask, room, worker, moving)
        yield from lending.lend(self.points)
        moments = yield from self._look_back(lending, moves)
        yield from lending.conclude(self.sight, is_a_serial_on_loan=look.is_a_serial_on_loan)
        if not lending.is_full:
            moments += yield from self._prospects(room, worker, holds)
        next_at = world.now if lending.is_full else min(moments, default=None)
        return Claimed(lending.claims, instant_or_none(next_at), instant(world.now))

    def _look_back(self, lending: Lending, moves: Collection[int]) -> Steps[list[int]]:
        """Where there is room left, at all of what was looked at in part; or when that may be done."""
        partly, now = [number for number in moves if self.points[number][1]], self.world.now
        if not partly or lending.is_full:
            return []
        if not self.sight.may_look_back(partly, now):
            return [now + PAUSE]
        self.sight.look_back(partly, now)
        yield from lending.lend({})
        return []

    def _hold(self, holds: Holds, track: Track) -> int | bool | None:
        return holds.on(self.ask.lanes[track.task], track.queue)

    def _prospects(self, room: Room, worker: int, holds: Holds) -> Steps[list[int]]:
        """When the next job of a lane is due, a switch opens, a limit lets another start, or a lease ends."""
        world = self.world
        tasks = {number: track.task for number, track in self.served}
        held = {number: self._hold(holds, track) for number, track in self.served}
        moving = [number for number, hold in held.items() if hold is None]
        opening = {number: until for number, until in held.items() if until is not None and until is not True}
        limited = {number: opens for number in moving if (opens := room.opens_at(tasks[number])) is not None}
        lanes = {"moving": integers(moving), "standing": integers([*opening, *limited])}
        found = yield Statement(SQL["prospects"], lanes | {"worker": worker, "now": world.now})
        moments: list[int] = []
        for kind, number, moment in found:
            if kind == "lease":
                moments.append(max(world.now + moment - world.moment.boot, world.now + SOON))
            elif kind == "due":
                moments.append(moment)
            elif number in opening:
                moments.append(max(opening[number], moment))
            elif moment <= world.now:
                moments.append(limited[number])
        return moments
