"""claim: lend ready jobs. Never two valid leases on one job, never one that is not yet due.

Whole tracks are skipped or read by index ranges, and what is lent is written in one statement, so
the cost of a claim follows what it lends and not what waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import chain, groupby, repeat
from typing import Any, Final, NamedTuple

from duly.ids import new_nonce
from duly.job import Claim, as_claim
from duly.stores.contract import Ask, Claimed
from duly.stores.drive import Lengthy, Statement, Steps
from duly.stores.sqlite.operations.batch import pack, unpack
from duly.stores.sqlite.operations.intake import absorb
from duly.stores.sqlite.operations.lanes import SQL, read_room, serves
from duly.stores.sqlite.operations.look import FOREVER, Borrower, Holds, Look, Track
from duly.stores.sqlite.operations.recover import expire, recover
from duly.stores.sqlite.operations.settle import Ends
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.instants import instant, instant_or_none, span
from duly.stores.tables.room import SOON, Room, is_limited

SLACK = 16
"""Rows read per track beyond its share, so that an uneven backlog rarely needs a second reading."""

Place = tuple[int, int, int]
"""Where a job stands in the order of lending: rank, ready_at, generation."""


class Candidate(NamedTuple):
    """A ready job: sorted by its first two fields within one rank."""

    ready_at: int
    generation: int
    id: str
    arguments: str
    context: str
    task: str
    queue: str
    epoch: int
    due: int
    key: str | None
    attempt: int
    crashes: int
    deferrals: int
    cycle: int
    is_suspect: int
    tick: int | None
    first_failure: int | None
    serial: str | None
    per_key: int


PLAIN: Final = (None, 0, 0, 0, 0, 0, None, None, None, 0)
"""What a job has from `key` on that was never lent and has no key; `ready` leaves it out."""
NO_CONTEXT: Final = "{}"


class Reading(NamedTuple):
    """The first ready jobs of a track, column by column, as `ready` packs them."""

    track: Track
    moments: list[int]
    generations: list[int]
    ids: list[str]
    arguments: list[str]
    contexts: list[str | None]
    rests: list[list[Any] | None] | None
    """None where every job is plain."""

    @classmethod
    def of(cls, track: Track, columns: Sequence[Any]) -> Reading:
        """In order, as they should be already: SQLite promises none within a text."""
        *texts, rests, uncommon = columns
        unpacked: list[Any] = [*map(unpack, texts), unpack(rests) if uncommon else None]
        moments, generations, *_ = unpacked
        if moments == sorted(moments) and generations == sorted(generations):
            return cls(track, *unpacked)
        places = [*zip(moments, generations, strict=True)]
        order = sorted(range(len(places)), key=places.__getitem__)
        return cls(track, *(column and [column[place] for place in order] for column in unpacked))

    @property
    def last(self) -> tuple[int, int]:
        """Where the last of them stands."""
        return self.moments[-1], self.generations[-1]

    def _contexts(self) -> list[str]:
        """Most have none, of which `ready` tells nothing."""
        return [NO_CONTEXT if context is None else context for context in self.contexts]

    def candidates(self) -> list[Candidate]:
        lane = (self.track.task, self.track.queue)
        told = zip(self.moments, self.generations, self.ids, self.arguments, self._contexts(), strict=True)
        rests = self.rests or repeat(None)
        return [
            Candidate._make((*job, *lane, *(rest or (1, job[0], *PLAIN))))
            for job, rest in zip(told, rests, strict=False)
        ]

    def claims(self, nonce: str) -> list[Claim]:
        """Of plain ones. In one sweep: this is where a claim spends its Python."""
        queue, task, *_ = self.track
        instants = {moment: instant(moment) for moment in set(self.moments)}
        columns = zip(
            self.ids,
            repeat(1),
            repeat(nonce),
            repeat(task),
            repeat(queue),
            repeat(None),
            self.generations,
            self.arguments,
            repeat(0),
            repeat(0),
            repeat(0),
            repeat(0),
            repeat(object=False),
            map(instants.__getitem__, self.moments),
            repeat(None),
            repeat(None),
            self._contexts(),
            strict=False,  # what is repeated has no end
        )
        return list(map(as_claim, columns))


def claim(world: World, ask: Ask, ends: Ends | None = None) -> Steps[Claimed]:
    """With `ends`, settle them first, or in the statement that lends where the order makes no difference."""
    ends = ends or Ends(world, ask.worker, ())
    if not ends.can_wait:
        yield from ends.settle()
    yield from absorb(world)
    look = yield from _look_around(world, ask, ends)
    served = [track for track in look.tracks if serves(ask, track.task, track.queue)]
    moving = [track for track in served if look.holds.on(ask.lanes[track.task], track.queue) is None]
    ready = [track for track in moving if track.first_ready_at <= world.now]
    if any(is_limited(ask.lanes[track.task]) for track in ready):
        yield from ends.settle_plainly()  # what has ended makes room
    workers = [borrower.worker for borrower in look.borrowers]
    room = yield from read_room(world, ask, {track.task for track in ready}, workers)
    loan = Loan(world, ask, room, ends)
    yield from loan.lend(ready)
    if loan.is_full:
        return Claimed(loan.claims, world.moment.instant, world.moment.instant)
    moments = _held_until(ask, look.holds, served)
    moments += yield from _openings(world, room, moving)
    moments += _leases(world, ask, look.borrowers)
    return Claimed(loan.claims, instant_or_none(min(moments, default=None)), world.moment.instant)


def _look_around(world: World, ask: Ask, ends: Ends) -> Steps[Look]:
    """The look that holds when lending begins: what must be done first is done, and looked at again."""
    look = yield from Look.read(world, ask.worker)
    if not look.is_present:
        yield from _be_present(world, ask)
        look = yield from Look.read(world, ask.worker)
    dead = [one for one in look.borrowers if ask.takes_over and not one.has_lease(world.moment.boot)]
    late = [(queue, task) for queue, task in look.late if serves(ask, task, queue)]
    if not dead and not late:
        return look
    yield from ends.settle()  # before somebody else decides about them
    yield from recover(world, dead)
    if dead:  # what was taken back may have come too late meanwhile
        look = yield from Look.read(world, ask.worker)
        late = [(queue, task) for queue, task in look.late if serves(ask, task, queue)]
    yield from expire(world, late)
    return (yield from Look.read(world, ask.worker))


def _be_present(world: World, ask: Ask) -> Steps[None]:
    lease_until = world.moment.boot + span(ask.lease)
    presence = {"worker": ask.worker, "now": world.now, "lease_until": lease_until}
    yield Statement(SQL["present"], presence | world.moment.lease())


class Loan:
    """What one claim lends: read in rounds, each round written before the next is read."""

    def __init__(self, world: World, ask: Ask, room: Room, ends: Ends) -> None:
        self.claims: list[Claim] = []
        self._ends = ends
        self._world = world
        self._ask = ask
        self._room = room
        self._nonce = new_nonce()
        self._refused: set[str] = set()
        self._last: Place | None = None
        """Where the job stood that was lent last."""
        self._serials: list[tuple[Place, str]] = []
        """Of what was lent, as far as it has one."""

    @property
    def is_full(self) -> bool:
        return len(self.claims) >= self._ask.limit

    def lend(self, ready: Sequence[Track]) -> Steps[None]:
        """Priorities one after the other; within one, the tracks merge by the time they became ready."""
        by_rank = sorted(ready, key=lambda track: track.rank)
        self._refused = {track.task for track in ready if self._room.left(track.task) == 0}
        for rank, tracks in groupby(by_rank, key=lambda track: track.rank):
            yield from self._lend_rank(rank, list(tracks))
        if self._ends.can_wait:  # nothing was lent
            yield from self._ends.settle_plainly()
        if self._room.started:
            yield Statement(SQL["start"], {"tasks": pack(self._room.started), "now": self._world.now})
        yield from self._park_refused(ready)

    def _lend_rank(self, rank: int, tracks: list[Track]) -> Steps[None]:
        while tracks and not self.is_full:
            tracks = [track for track in tracks if track.task not in self._refused]
            tracks = yield from self._round(rank, tracks)

    def _round(self, rank: int, tracks: list[Track]) -> Steps[list[Track]]:
        """Lend what is surely next; answers the tracks that may hold more."""
        readings: list[Reading] = []
        horizon: tuple[int, int] | None = None
        for track in tracks:
            share = self._share(track, len(tracks))
            reading = yield from self._read(track, share)
            readings.append(reading)
            if len(reading.ids) == share:  # another may lie beyond: nothing later is surely next
                horizon = min(horizon or reading.last, reading.last)
        if len(readings) == 1 and readings[0].rests is None and self._room.left(tracks[0].task) is None:
            yield from self._lend_plain(rank, readings[0])
        else:
            rows = sorted(chain.from_iterable(reading.candidates() for reading in readings))
            yield from self._serve(rank, [row for row in rows if horizon is None or row[:2] <= horizon])
        return [] if horizon is None else tracks

    def _read(self, track: Track, share: int) -> Steps[Reading]:
        (columns,) = yield Statement(SQL["ready"], self._range(track, share))
        return Reading.of(track, columns)

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
        tasks = {row.task for row in rows}
        if all(row.serial is None for row in rows) and all(self._room.left(task) is None for task in tasks):
            yield from self._lend(rank, rows[:wanted])
        else:
            yield from self._choose(rank, rows, wanted)

    def _choose(self, rank: int, rows: Sequence[Candidate], wanted: int) -> Steps[None]:
        """One by one: each loan may close a serial or a lane for those behind it."""
        yield from self._ends.settle_plainly()
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
        if parked:
            yield Statement(SQL["park"], {"generations": pack(parked)})
        yield from self._lend(rank, lent)

    def _on_loan(self, rows: Sequence[Candidate]) -> Steps[Counter[str | None]]:
        serials = {row.serial for row in rows if row.serial is not None}
        if not serials:
            return Counter()
        found = yield Statement(SQL["on_loan"], {"serials": pack(list(serials))})
        return Counter(dict(found))

    def _lend(self, rank: int, lent: Sequence[Candidate]) -> Steps[None]:
        if lent:
            self._serials += [((rank, *row[:2]), row.serial) for row in lent if row.serial is not None]
            yield from self._write([row.generation for row in lent])
            self._last = (rank, *lent[-1][:2])
            self.claims += _claims(lent, self._nonce)

    def _lend_plain(self, rank: int, reading: Reading) -> Steps[None]:
        if reading.ids:
            yield from self._write(reading.generations)
            self._last = (rank, *reading.last)
            self.claims += reading.claims(self._nonce)

    def _write(self, generations: Sequence[int]) -> Steps[None]:
        loan = {"generations": pack(generations), "nonce": self._nonce, "worker": self._ask.worker}
        if self._ends.can_wait:
            yield from self._ends.settle_and_lend(loan)
        else:
            yield Lengthy(SQL["lend"], loan)

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
        if self.is_full and (self._last is None or place > self._last):
            return False
        later = sum(1 for other, held in self._serials if held == serial and other > place)
        return runs - later >= per_key


def _claims(lent: Sequence[Candidate], nonce: str) -> list[Claim]:
    """One nonce serves a whole claim, as a fence names the job beside it."""
    instants = _Instants()
    return [
        Claim(
            id=row.id,
            epoch=row.epoch,
            nonce=nonce,
            task=row.task,
            queue=row.queue,
            key=row.key,
            generation=row.generation,
            arguments=row.arguments,
            attempt=row.attempt,
            crashes=row.crashes,
            deferrals=row.deferrals,
            cycle=row.cycle,
            is_suspect=row.is_suspect == 1,
            due=instants[row.due],
            tick=None if row.tick is None else instants[row.tick],
            first_failure=None if row.first_failure is None else instants[row.first_failure],
            context=row.context,
        )
        for row in lent
    ]


class _Instants(dict[int, datetime]):
    """Each moment of a batch is converted once: jobs of one put are due at one moment."""

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
