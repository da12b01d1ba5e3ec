"""claim: lend ready jobs. Never two valid leases on one job, never one that is not yet due.

A job behind a run of its serial is parked outside the ready set the first time it is met, so
nothing at the head of a queue is walked over twice.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from datetime import datetime, timedelta

from duly.ids import new_nonce
from duly.job import Claim, Delivery, Fence, State, Wish
from duly.lifecycle import CRASH_CAP
from duly.stores.contract import Ask, Claimed, Lane, Scope, WorkerCard
from duly.stores.memory.world import Presence, Row, World


def claim(world: World, ask: Ask) -> Claimed:
    _be_present(world, ask)
    if ask.takes_over:
        recover(world)
    _expire(world, ask)
    room = Room(world, ask)
    claims: list[Claim] = []
    for row in _candidates(world, ask):
        if len(claims) >= ask.limit:
            break
        if _must_park(world, row):
            row.is_parked = True
        elif room.take(row.task):
            claims.append(lend(world, row, ask.worker))
    return Claimed(claims, _next_at(world, ask, room, full=len(claims) >= ask.limit), world.now())


def _be_present(world: World, ask: Ask) -> None:
    """A worker that claims has a lease, even before its first beat."""
    if ask.worker not in world.workers:
        card = WorkerCard(ask.worker, ask.worker, "", 0, world.now())
        world.workers[ask.worker] = Presence(card, 0.0, world.now())
    if not world.has_lease(ask.worker):
        world.workers[ask.worker].lease_until = world.clock.boot() + ask.lease.total_seconds()


def recover(world: World) -> None:
    """Running jobs whose worker let its lease run out become ready, or end as they must."""
    for row in list(world.rows.values()):
        if row.state is State.RUNNING and not world.has_lease(row.worker):
            _recover_one(world, row)


def _recover_one(world: World, row: Row) -> None:
    row.nonce = new_nonce()  # the old claim must not be taken for the one that ended the job
    presence = world.workers.get(row.worker)
    host = presence.card.host if presence else "an unknown host"
    evidence = f"lease ran out on {host or 'an unknown host'}"
    if row.superseded_by is not None:
        world.note(row, "lease ran out", evidence)
        world.tallies["superseded"] += 1
        world.finish(row, "supersede", f"superseded by {row.superseded_by}")
    elif row.wish in (Wish.CANCEL, Wish.DELETE):
        _end_wished(world, row, evidence)
    elif row.delivery is Delivery.AT_MOST_ONCE and row.has_begun:
        world.note(row, "lease ran out", evidence)
        world.blame(row, evidence)
        world.finish(row, "interrupt", "interrupted, outcome unknown")
    elif row.began_isolated and row.crashes + 1 >= CRASH_CAP and not row.perpetual:  # that one goes on
        row.crashes += 1
        world.note(row, "crash", evidence)
        world.blame(row, f"crashed: {evidence}")
        world.finish(row, "fail", "crashed too often")
    else:
        _lend_again(world, row, evidence)


def _end_wished(world: World, row: Row, evidence: str) -> None:
    world.note(row, "lease ran out", evidence)
    is_deleted = row.wish is Wish.DELETE
    world.finish(row, "cancel", "cancelled while running")
    if is_deleted:
        del world.rows[row.id]


def _lend_again(world: World, row: Row, evidence: str) -> None:
    """Back to the ready set, still ahead of what is parked behind it."""
    world.note(row, "lease ran out", evidence)
    row.crashes += 1 if row.began_isolated else 0
    row.is_suspect = True
    row.state = State.WAITING
    row.ready_at = world.now()
    row.worker = ""
    row.nonce = new_nonce()
    row.has_begun = row.began_isolated = False


def _expire(world: World, ask: Ask) -> None:
    """Skip what nobody wants any more, parked or not, before lending: it may stand in another's way."""
    now = world.now()
    for row in list(world.rows.values()):
        is_late = row.state is State.WAITING and row.expires_at is not None and row.expires_at <= now
        if is_late and _serves(ask, row):
            world.finish(row, "expire", "expired")


def _candidates(world: World, ask: Ask) -> list[Row]:
    now = world.now()
    found = [
        row
        for row in world.rows.values()
        if row.state is State.WAITING
        and not row.is_parked
        and row.ready_at <= now
        and _serves(ask, row)
        and held(world, ask.lanes[row.task], row.queue) is None
    ]
    return sorted(found, key=lambda row: (-row.priority, row.ready_at, row.generation))


def _serves(ask: Ask, row: Row) -> bool:
    lane = ask.lanes.get(row.task)
    return lane is not None and (ask.queues is None or row.queue in ask.queues or lane.on_any_queue)


def held(world: World, lane: Lane, queue: str) -> datetime | bool | None:
    """None when the lane moves; else until when it is held, or True for good."""
    tasks = [(Scope.TASK, task) for task in (lane.task, *lane.held_by)]
    for name in [(Scope.QUEUE, queue), *tasks]:
        switch = world.switches.get(name)
        if switch and (switch.until is None or switch.until > world.now()):
            return switch.until or True
    return None


def _must_park(world: World, row: Row) -> bool:
    return row.per_key > 0 and len(world.live(row.serial, State.RUNNING)) >= row.per_key


def lend(world: World, row: Row, worker: str) -> Claim:
    row.state = State.RUNNING
    row.epoch += 1
    row.nonce = new_nonce()
    row.worker = worker
    row.has_begun = row.began_isolated = False  # an operator's retry may bring back a row that had begun
    row.progress = None
    row.wish = None if row.wish is Wish.HURRY else row.wish
    return Claim(
        row.id,
        row.epoch,
        row.nonce,
        row.task,
        row.queue,
        row.key,
        row.generation,
        row.arguments,
        row.attempt,
        row.crashes,
        row.deferrals,
        row.cycle,
        row.is_suspect,
        row.due,
        row.tick,
        row.first_failure,
        row.context,
    )


class Room:
    """What the lanes' limits still allow within this claim."""

    def __init__(self, world: World, ask: Ask) -> None:
        self._world = world
        self._ask = ask
        self._free = ask.free
        limited = [lane.task for lane in ask.lanes.values() if lane.concurrency is not None]
        self._running: Counter[str] = world.running(limited)

    def take(self, task: str) -> bool:
        lane = self._ask.lanes[task]
        if lane.concurrency is None and lane.rate is None:
            return True
        if self._free < 1 or self._is_full(lane) or self.opens_at(lane) is not None:
            return False
        self._free -= 1
        self._running[task] += 1
        if lane.rate is not None:
            insort(self._world.starts[task], self._world.now())
        return True

    def _is_full(self, lane: Lane) -> bool:
        return lane.concurrency is not None and self._running[lane.task] >= lane.concurrency

    def opens_at(self, lane: Lane) -> datetime | None:
        """None when the rate allows a start now, else the moment it will."""
        if lane.rate is None:
            return None
        now = self._world.now()
        starts = [start for start in self._world.starts[lane.task] if start > now - lane.rate.per]
        self._world.starts[lane.task] = starts
        return starts[-lane.rate.starts] + lane.rate.per if len(starts) >= lane.rate.starts else None


def _next_at(world: World, ask: Ask, room: Room, *, full: bool) -> datetime | None:
    """The earliest moment at which asking again may find more, as far as can be known now."""
    now = world.now()
    if full:
        return now
    moments: list[datetime] = []
    for row in world.rows.values():
        if row.state is State.WAITING and not row.is_parked and _serves(ask, row):
            moments.extend(_opening(world, ask, room, row, now))
        elif row.state is State.RUNNING and row.worker != ask.worker:
            moments.append(max(world.lease_end(row), now + timedelta(milliseconds=10)))
    return min(moments, default=None)


def _opening(world: World, ask: Ask, room: Room, row: Row, now: datetime) -> list[datetime]:
    lane = ask.lanes[row.task]
    hold = held(world, lane, row.queue)
    if hold is True:
        return []
    if isinstance(hold, datetime):
        return [max(hold, row.ready_at)]
    if row.ready_at > now:
        return [row.ready_at]
    opens_at = room.opens_at(lane)
    return [opens_at] if opens_at is not None else []


def fence_holds(row: Row | None, fence: Fence) -> bool:
    """The one condition of every write by a worker."""
    if row is None or row.state is not State.RUNNING:
        return False
    return (row.epoch, row.nonce) == (fence.epoch, fence.nonce)
