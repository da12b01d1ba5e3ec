"""claim: lend ready jobs. Never two valid leases on one job, never one that is not yet due.

One look tells whether anything needs attention first: a worker that died, a job that expired, a switch.
The cost of the rest follows what is lent and the number of lanes, not what waits or what was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

    loads: Loads
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


def claim(world: World, sight: Sight, ask: Ask, settled: Sequence[int] = ()) -> Steps[Claimed]:
    """Lend; `settled` was settled on sight in the same transaction and is to be confirmed."""
    yield from world.book.update(world.moment)
    served = [(number, track) for number, track in world.book.items() if serves(ask, track)]
    points = sight.points([number for number, _ in served], world.now)
    look = yield from _look(world, sight.loads, ask, served, points)
    if look.is_somebody_spoken_of:
        yield from confirm(settled)
    worker = look.worker if look.worker and look.has_lease else (yield from _be_present(world, ask))
    is_something_back = False
    if ask.takes_over and look.is_somebody_dead:
        is_something_back = yield from recover(world, worker)
    # What is taken back here is not, should this not be committed: that it was seen is not to be remembered.
    loads = Loads() if is_something_back else sight.loads
    if look.is_something_late or is_something_back:  # what comes back may have come too late
        yield from expire(world, [number for number, _ in served])
        look = yield from _look(world, loads, ask, served, points)
    hidden = [number for number in _limited(ask, served) if points[number][1] and number not in look.lanes]
    if hidden and sight.may_look_back(hidden, world.now):
        sight.look_back(hidden, world.now)
        points |= dict.fromkeys(hidden, START)
        look = yield from _look(world, loads, ask, served, points)
    return (yield from _lend(world, sight, ask, worker, served, points, look))


def _limited(ask: Ask, served: Served) -> list[int]:
    """Lanes of tasks with a limit."""
    return [number for number, track in served if is_limited(ask.lanes[track.task])]


def _counted(world: World, ask: Ask, served: Served) -> list[int]:
    """Lanes, served or not, over which those limits count."""
    tasks = {world.book.track(number).task for number in _limited(ask, served)}
    return [number for number, track in world.book.items() if track.task in tasks]


def _look(world: World, loads: Loads, ask: Ask, served: Served, points: Mapping[int, Point]) -> Steps[Look]:
    limited = _limited(ask, served)
    lanes = {
        "lanes": integers([number for number, _ in served]),
        "limited": integers(limited),
        "since": integers([points[number][0] for number in limited]),
        "after": integers([points[number][1] for number in limited]),
    }
    moment = {"now": world.now, "boot": world.moment.boot, "worker": ask.worker}
    count = loads.asked(_counted(world, ask, served), world.now)
    (seen,) = yield Statement(LOOK, lanes | moment | count.parameters)
    return Look(loads, count, *seen)


def _be_present(world: World, ask: Ask) -> Steps[int]:
    """A worker that claims has a lease, even before its first beat."""
    lease_until = world.moment.boot + span(ask.lease)
    presence = {"worker": ask.worker, "now": world.now, "lease_until": lease_until}
    ((number,),) = yield Statement(SQL["present"], presence)
    return int(number)


def _lend(
    world: World,
    sight: Sight,
    ask: Ask,
    worker: int,
    served: Served,
    points: Mapping[int, Point],
    look: Look,
) -> Steps[Claimed]:
    holds = Holds({(scope, name): until for scope, name, until in look.switches or ()})
    moving = [
        (number, track) for number, track in served if holds.on(ask.lanes[track.task], track.queue) is None
    ]
    moves = {number for number, _ in moving}
    running = look.loads.learn(look.counting, look.loans or ())
    room = yield from Room.read(world, ask, [*look.lanes & moves], running, look.loads)
    lending = Lending(world, ask, room, worker, moving)
    moments: list[int] = []
    yield from lending.lend(points)
    partly = [number for number in moves if points[number][1]]
    if partly and not lending.is_full:
        if sight.may_look_back(partly, world.now):
            sight.look_back(partly, world.now)
            yield from lending.lend({})
        else:
            moments.append(world.now + PAUSE)
    yield from lending.conclude(sight, is_a_serial_on_loan=look.is_a_serial_on_loan)
    if not lending.is_full:
        moments += yield from _prospects(world, ask, room, worker, served, holds)
    next_at = world.now if lending.is_full else min(moments, default=None)
    return Claimed(lending.claims, instant_or_none(next_at), instant(world.now))


# --- when to ask again --------------------------------------------------------------------------


def _prospects(
    world: World, ask: Ask, room: Room, worker: int, served: Served, holds: Holds
) -> Steps[list[int]]:
    """When the next job of a lane is due, a switch opens, a limit lets another start, or a lease ends."""
    tasks = {number: track.task for number, track in served}
    held = {number: holds.on(ask.lanes[track.task], track.queue) for number, track in served}
    moving = [number for number, _ in served if held[number] is None]
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
