"""claim: lend ready jobs. Never two valid leases on one job, never one that is not yet due.

Whole tracks are skipped or read by index ranges, and what is lent is written in one statement, so
the cost of a claim follows what it lends and not what waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from duly.ids import new_nonce
from duly.job import Claim
from duly.stores.contract import Ask, Claimed
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.batch import pack
from duly.stores.sqlite.operations.intake import absorb
from duly.stores.sqlite.operations.lanes import FOREVER, SQL, Holds, Track, read_room, serves
from duly.stores.sqlite.operations.recover import Borrower, borrowers, expire, recover
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.instants import instant, instant_or_none, span
from duly.stores.tables.room import SOON, Room

SLACK = 16
"""Rows read per track beyond its share, so that an uneven backlog rarely needs a second reading."""

Place = tuple[int, int, int]
"""Where a job stands in the order of lending: rank, ready_at, generation."""


class Candidate(NamedTuple):
    """A ready job, as `ready` reads it: sorted by its first two fields within one rank."""

    ready_at: int
    generation: int
    id: str
    epoch: int
    task: str
    queue: str
    key: str | None
    arguments: str
    attempt: int
    crashes: int
    deferrals: int
    cycle: int
    is_suspect: int
    due: int
    tick: int | None
    first_failure: int | None
    context: str
    serial: str | None
    per_key: int


TASK: Final = attrgetter("task")
SERIAL: Final = attrgetter("serial")


def claim(world: World, ask: Ask) -> Steps[Claimed]:
    yield from absorb(world)
    yield from _be_present(world, ask)
    borrowing = yield from borrowers(world)
    if ask.takes_over:
        yield from recover(world, borrowing)
    yield from expire(world, ask)
    holds = yield from Holds.read(world)
    served = [track for values in (yield Statement(SQL["lanes"])) if _is_served(ask, track := Track(*values))]
    moving = [track for track in served if holds.on(ask.lanes[track.task], track.queue) is None]
    ready = [track for track in moving if track.first_ready_at <= world.now]
    workers = [borrower.worker for borrower in borrowing]
    room = yield from read_room(world, ask, {track.task for track in ready}, workers)
    loan = Loan(world, ask, room)
    yield from loan.lend(ready)
    if loan.is_full:
        return Claimed(loan.claims, world.moment.instant, world.moment.instant)
    moments = _held_until(ask, holds, served)
    moments += yield from _openings(world, room, moving)
    moments += _leases(world, ask, borrowing)
    return Claimed(loan.claims, instant_or_none(min(moments, default=None)), world.moment.instant)


def _be_present(world: World, ask: Ask) -> Steps[None]:
    lease_until = world.moment.boot + span(ask.lease)
    presence = {"worker": ask.worker, "now": world.now, "lease_until": lease_until}
    yield Statement(SQL["present"], presence | world.moment.lease())


def _is_served(ask: Ask, track: Track) -> bool:
    return serves(ask, track.task, track.queue)


class Loan:
    """What one claim lends: read in rounds, each round written before the next is read."""

    def __init__(self, world: World, ask: Ask, room: Room) -> None:
        self.claims: list[Claim] = []
        self._world = world
        self._ask = ask
        self._room = room
        self._nonce = new_nonce()
        self._refused: set[str] = set()
        self._lent: list[tuple[int, Sequence[Candidate]]] = []

    @property
    def is_full(self) -> bool:
        return len(self.claims) >= self._ask.limit

    def lend(self, ready: Sequence[Track]) -> Steps[None]:
        """Priorities one after the other; within one, the tracks merge by the time they became ready."""
        by_rank = sorted(ready, key=lambda track: track.rank)
        self._refused = {track.task for track in ready if self._room.left(track.task) == 0}
        for rank, tracks in groupby(by_rank, key=lambda track: track.rank):
            yield from self._lend_rank(rank, list(tracks))
        if self._room.started:
            yield Statement(SQL["start"], {"tasks": pack(self._room.started), "now": self._world.now})
        yield from self._park_refused(ready)

    def _lend_rank(self, rank: int, tracks: list[Track]) -> Steps[None]:
        while tracks and not self.is_full:
            tracks = [track for track in tracks if track.task not in self._refused]
            tracks = yield from self._round(rank, tracks)

    def _round(self, rank: int, tracks: list[Track]) -> Steps[list[Track]]:
        """Lend what is surely next; answers the tracks that may hold more."""
        rows: list[Candidate] = []
        horizon: tuple[int, int] | None = None
        for track in tracks:
            share = self._share(track, len(tracks))
            found = yield Statement(SQL["ready"], self._range(track, share))
            rows += map(Candidate._make, found)
            if len(found) == share:  # beyond its last row another may lie: nothing later is surely next
                horizon = min(horizon or found[-1][:2], found[-1][:2])
        if len(tracks) > 1:
            rows.sort()
        yield from self._serve(rank, [row for row in rows if horizon is None or row[:2] <= horizon])
        return [] if horizon is None else tracks

    def _share(self, track: Track, tracks: int) -> int:
        wanted = self._ask.limit - len(self.claims)
        share = wanted if tracks == 1 else wanted // tracks + SLACK
        left = self._room.left(track.task)
        return share if left is None else min(share, left + SLACK)

    def _range(self, track: Track, limit: int) -> dict[str, str | int]:
        place: dict[str, str | int] = {"queue": track.queue, "task": track.task, "rank": track.rank}
        return place | {"now": self._world.now, "limit": limit}

    def _serve(self, rank: int, rows: Sequence[Candidate]) -> Steps[None]:
        wanted = self._ask.limit - len(self.claims)
        if set(map(SERIAL, rows)) <= {None} and self._is_unlimited(set(map(TASK, rows))):
            yield from self._write(rank, rows[:wanted], parked=())
        else:
            yield from self._choose(rank, rows, wanted)

    def _is_unlimited(self, tasks: Iterable[str]) -> bool:
        return all(self._room.left(task) is None for task in tasks)

    def _choose(self, rank: int, rows: Sequence[Candidate], wanted: int) -> Steps[None]:
        """One by one: each loan may close a serial or a lane for those behind it."""
        on_loan = yield from self._on_loan(rows)
        lent: list[Candidate] = []
        parked: list[int] = []
        for row in rows:
            if len(lent) >= wanted:
                break
            if row.task in self._refused:
                continue
            if row.serial is not None and 0 < row.per_key <= on_loan[row.serial]:
                parked.append(row.generation)
            elif self._room.take(row.task):
                lent.append(row)
                on_loan[row.serial] += 1
            else:
                self._refused.add(row.task)
        yield from self._write(rank, lent, parked)

    def _on_loan(self, rows: Sequence[Candidate]) -> Steps[Counter[str | None]]:
        serials = {row.serial for row in rows if row.serial is not None}
        if not serials:
            return Counter()
        found = yield Statement(SQL["on_loan"], {"serials": pack(list(serials))})
        return Counter(dict(found))

    def _write(self, rank: int, lent: Sequence[Candidate], parked: Sequence[int]) -> Steps[None]:
        if parked:
            yield Statement(SQL["park"], {"generations": pack(parked)})
        if lent:
            generations = pack([row[1] for row in lent])
            loan = {"generations": generations, "nonce": self._nonce, "worker": self._ask.worker}
            yield Statement(SQL["lend"], loan)
            self._lent.append((rank, lent))
            self.claims += _claims(lent, self._nonce)

    def _park_refused(self, ready: Sequence[Track]) -> Steps[None]:
        """In lanes that may start nothing now, jobs behind a run leave the ready set all the same."""
        lanes = {(track.queue, track.task) for track in ready if track.task in self._refused}
        if not lanes:
            return
        found = yield Statement(SQL["behind_runs"], {"lanes": pack(list(lanes)), "now": self._world.now})
        parked = [
            generation
            for *place, generation, serial, per_key, runs in found
            if self._is_behind((*place, generation), serial, per_key, runs)
        ]
        if parked:
            yield Statement(SQL["park"], {"generations": pack(parked)})

    def _is_behind(self, place: Place, serial: str, per_key: int, runs: int) -> bool:
        """As it was when this claim came to it: later loans did not yet count, and a full claim stops."""
        lent = [(rank, *row[:2], row.serial) for rank, rows in self._lent for row in rows]
        if self.is_full and (not lent or place > lent[-1][:3]):
            return False
        later = sum(1 for *other, held in lent if held == serial and (*other,) > place)
        return runs - later >= per_key


def _claims(lent: Sequence[Candidate], nonce: str) -> list[Claim]:
    """Spelled out and in one go: this is where a claim spends its Python.

    One nonce serves a whole claim, as a fence names the job beside it. Jobs of one put are due at one moment,
    so most of the conversions are those of the row before.
    """
    instants = _Instants()
    return [
        Claim._make(
            (
                job_id,
                epoch,
                nonce,
                task,
                queue,
                key,
                generation,
                arguments,
                attempt,
                crashes,
                deferrals,
                cycle,
                is_suspect == 1,
                instants[due],
                tick if tick is None else instants[tick],
                failure if failure is None else instants[failure],
                context,
            )
        )
        for (
            _, generation, job_id, epoch, task, queue, key, arguments, attempt, crashes, deferrals, cycle,
            is_suspect, due, tick, failure, context, _, _
        ) in lent
    ]  # fmt: skip


class _Instants(dict[int, datetime]):
    """Each moment of a batch is converted once."""

    def __missing__(self, stamped: int) -> datetime:
        found = self[stamped] = instant(stamped)
        return found


# --- when to ask again --------------------------------------------------------------------------


def _held_until(ask: Ask, holds: Holds, served: Sequence[Track]) -> list[int]:
    """When a lane that is held for a time moves again and has something due."""
    ends: list[int] = []
    for track in served:
        hold = holds.on(ask.lanes[track.task], track.queue)
        if hold is not None and hold < FOREVER:
            ends.append(max(hold, track.first_ready_at))
    return ends


def _openings(world: World, room: Room, moving: Sequence[Track]) -> Steps[list[int]]:
    """When lanes that move have the next job due, or a rate lets the next one start."""
    moments = [track.first_ready_at for track in moving if track.first_ready_at > world.now]
    read = [track for track in moving if track.first_ready_at <= world.now]
    if not read:
        return moments
    lanes = pack([track[:3] for track in read])
    found = yield Statement(SQL["openings"], {"lanes": lanes, "now": world.now})
    for track, (_, due, is_ready) in zip(read, found, strict=True):
        opens_at = room.opens_at(track.task) if is_ready else None
        moments += [moment for moment in (due, opens_at) if moment is not None]
    return moments


def _leases(world: World, ask: Ask, borrowing: Sequence[Borrower]) -> list[int]:
    """When another worker's lease ends, its jobs may be had; those of dead workers were taken back."""
    boot = world.moment.boot
    others = [
        borrower
        for borrower in borrowing
        if borrower.worker != ask.worker and (borrower.has_lease(boot) or not ask.takes_over)
    ]
    ends = [world.now + (boot if other.lease_until is None else other.lease_until) - boot for other in others]
    return [max(end, world.now + SOON) for end in ends]
