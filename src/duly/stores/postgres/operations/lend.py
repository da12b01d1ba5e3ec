"""What one claim lends, in rounds, in the order of priority and time over all its lanes.

Where no limit and no serial is in play the database picks and lends in one statement. Otherwise each
candidate is decided on here, because each loan may close a serial or a task for those behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from duly.job import Claim, as_claim
from duly.stores.contract import Ask
from duly.stores.drive import Row, Statement, Steps
from duly.stores.postgres.operations import serials
from duly.stores.postgres.operations.arrays import all_restored, integers, stored, words
from duly.stores.postgres.operations.fences import new_seed, prefix
from duly.stores.postgres.operations.lanes import Book, Track
from duly.stores.postgres.operations.room import Room
from duly.stores.postgres.operations.sight import LANE, READY_AT, START, Point, Sight
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.instants import instant

SQL = statements("lend")

SLACK: Final = 16
"""Candidates read beyond what is wanted, so that a few parked ones rarely need a second reading."""


class Place(NamedTuple):
    """Where a job stands in the order of lending."""

    rank: int
    ready_at: int
    generation: int


class Candidate(NamedTuple):
    """A ready job that needs a decision."""

    ready_at: int
    generation: int
    lane: int
    serial: str | None
    per_key: int


class Lending:
    """The loans of one claim."""

    def __init__(
        self, world: World, ask: Ask, room: Room, worker: int, moving: Sequence[tuple[int, Track]]
    ) -> None:
        self._world = world
        self._ask = ask
        self._room = room
        self._worker = worker
        self._tracks = {number: track for number, track in moving if room.may_lend(track.task)}
        self._seed = new_seed()
        self._start: dict[int, Point] = {}
        self._points: dict[int, Point] = {}
        self._refused = {track.task for track in self._tracks.values() if room.left(track.task) == 0}
        self._lent: list[Row] = []
        self._is_mixed = False
        """Lent in more than one go, so not in order."""
        self._has_moved = False
        """A job that was to be lent was no longer where it had been seen."""

    @property
    def is_full(self) -> bool:
        return len(self._lent) >= self._ask.limit

    @property
    def claims(self) -> list[Claim]:
        """What was lent, in order."""
        return made_claims(self._lent, self._seed, self._world.book)

    def lend(self, points: Mapping[int, Point]) -> Steps[None]:
        """Lend from each lane what lies behind a point, until there is no more or no more is wanted."""
        self._start = self._points = {number: points.get(number, START) for number in self._tracks}
        goes_on = True
        while goes_on and not self.is_full and (lanes := self._open()):
            needs_care = any(self._room.is_limited(self._tracks[number].task) for number in lanes)
            goes_on = yield from self._choose() if needs_care else self._pick()

    def conclude(self, sight: Sight, *, is_a_serial_on_loan: bool) -> Steps[None]:
        """Write down what the limits and the next claim must know."""
        if self._is_mixed:
            self._lent.sort(key=self._place)
        if self._room.started:
            tasks = words([stored(task) for task in self._room.started])
            yield Statement(SQL["start"], {"tasks": tasks, "now": self._world.now})
        if is_a_serial_on_loan or any(row[SERIAL] is not None for row in self._lent):
            yield from self._park_refused()
        lanes, moments, generations = ([row[place] for row in self._lent] for place in (LANE, READY_AT, 0))
        sight.note(lanes, moments, generations, self._world.now)

    def _place(self, row: Row) -> Place:
        return Place(-self._tracks[row[LANE]].priority, row[READY_AT], row[0])

    def _open(self) -> list[int]:
        return [number for number, track in self._tracks.items() if track.task not in self._refused]

    def _range(self, wanted: int) -> dict[str, Any]:
        lanes = self._open()
        return {
            "lanes": integers(lanes),
            "ranks": integers([-self._tracks[number].priority for number in lanes]),
            "since": integers([self._points[number][0] for number in lanes]),
            "after": integers([self._points[number][1] for number in lanes]),
            "now": self._world.now,
            "limit": wanted,
        }

    def _loan(self) -> dict[str, int]:
        return {"worker": self._worker, "seed": self._seed}

    # swiftly: the database lends what has no serial

    def _pick(self) -> Steps[bool]:
        """One round; says whether another may find more."""
        wanted = self._ask.limit - len(self._lent)
        rows = yield Statement(SQL["pick"], self._range(wanted) | self._loan())
        if not rows:
            return False
        self._is_mixed = bool(self._lent)
        has_more = rows[0][SEEN] >= wanted
        bound = [row for row in rows if row[SERIAL] is not None]
        if not bound and len(rows) == wanted:
            self._lent += rows
            return False
        self._lent += [row for row in rows if row[SERIAL] is None]
        self._advance(_candidate(row) for row in rows)
        self._is_mixed = self._is_mixed or bool(bound)
        yield from self._decide([_candidate(row) for row in bound], len(bound))
        return has_more or self._has_moved

    def _advance(self, seen: Iterable[Candidate]) -> None:
        points = dict(self._points)
        for candidate in seen:
            points[candidate.lane] = max(points[candidate.lane], (candidate.ready_at, candidate.generation))
        self._points = points

    # with care: every candidate in its turn

    def _choose(self) -> Steps[bool]:
        wanted = self._ask.limit - len(self._lent)
        found = yield Statement(SQL["peek"], self._range(wanted + SLACK))
        candidates = [Candidate(*row) for row in found]
        self._advance(candidates)
        seen = yield from self._decide(candidates, wanted)
        if seen < len(candidates):
            return False
        return len(candidates) >= wanted + SLACK or self._has_moved

    def _decide(self, candidates: Sequence[Candidate], wanted: int) -> Steps[int]:
        """Lend, park or leave each; answers how many were looked at."""
        held, on_loan = yield from self._hold(candidates)
        lent: list[int] = []
        parked: list[int] = []
        seen = 0
        for candidate in candidates:
            if len(lent) >= wanted:
                break
            seen += 1
            serial, task = candidate.serial, self._tracks[candidate.lane].task
            if task in self._refused or (serial is not None and serial not in held):
                continue  # its turn comes: in park_refused, or when whoever holds the serial has let go
            if serial is not None and 0 < candidate.per_key <= on_loan[serial]:
                parked.append(candidate.generation)
            elif self._room.take(task):
                lent.append(candidate.generation)
                on_loan[serial] += 1
            else:
                self._refused.add(task)
        yield from self._write(lent, parked)
        return seen

    def _hold(self, candidates: Sequence[Candidate]) -> Steps[tuple[set[str], Counter[str | None]]]:
        """Lock their serials, then count what is on loan of each, as it is now that nobody can change it."""
        self._has_moved = False
        wanted = {candidate.serial for candidate in candidates if candidate.serial is not None}
        held = yield from serials.hold(self._world, wanted)
        if not held:
            return held, Counter()
        found = yield Statement(SQL["on_loan"], {"serials": words(sorted(held))})
        return held, Counter(dict(found))

    def _write(self, lent: Sequence[int], parked: Sequence[int]) -> Steps[None]:
        if parked:
            yield Statement(SQL["park"], {"generations": integers(parked)})
        if lent:
            wanted = {"generations": integers(lent), "now": self._world.now}
            taken = yield Statement(SQL["take"], wanted | self._loan())
            self._lent += taken
            self._is_mixed = True
            # Something else may stand there now, so look again from where we began.
            self._has_moved = len(taken) < len(lent)
            self._points = self._start if self._has_moved else self._points

    def _park_refused(self) -> Steps[None]:
        """In lanes that may start nothing now, jobs behind a run leave the ready set all the same."""
        lanes = [number for number, track in self._tracks.items() if track.task in self._refused]
        if not lanes:
            return
        found = yield Statement(SQL["behind_runs"], {"lanes": integers(lanes), "now": self._world.now})
        candidates = [Candidate(*row) for row in found]
        held, on_loan = yield from self._hold(candidates)
        behind = [
            candidate.generation
            for candidate in candidates
            if candidate.serial in held and self._is_behind(candidate, on_loan[candidate.serial])
        ]
        yield from self._write([], behind)

    def _is_behind(self, candidate: Candidate, runs: int) -> bool:
        """As it was when this claim came to it: later loans did not yet count, and a full claim stops."""
        place = Place(-self._tracks[candidate.lane].priority, candidate.ready_at, candidate.generation)
        lent = [(self._place(row), row[SERIAL]) for row in self._lent]
        if self.is_full and (not lent or place > lent[-1][0]):
            return False
        later = sum(1 for other, serial in lent if serial == candidate.serial and other > place)
        return 0 < candidate.per_key <= runs - later


SERIAL, PER_KEY, SEEN = 16, 17, 18
"""Places in the rows that `pick` and `take` answer."""


def _candidate(row: Row) -> Candidate:
    return Candidate(row[READY_AT], row[0], row[LANE], row[SERIAL], row[PER_KEY])


def made_claims(lent: Sequence[Row], seed: int, book: Book) -> list[Claim]:
    """Column by column, since this is where a claim spends its Python: 0.9 microseconds a job, not 2.4."""
    if not lent:
        return []
    (
        generations, ids, epochs, lanes, keys, arguments, attempts, crashes, deferrals, cycles, suspects,
        due, ticks, failures, contexts, _, serials, *_
    ) = zip(*lent, strict=True)  # fmt: skip
    tracks = {number: book.track(number) for number in set(lanes)}
    moments = {moment: instant(moment) for moment in {*due, *ticks, *failures} if moment is not None}
    columns = zip(
        ids,
        epochs,
        _nonces(generations, serials, seed),
        [tracks[lane].task for lane in lanes],
        [tracks[lane].queue for lane in lanes],
        all_restored(keys),
        generations,
        all_restored(arguments),
        attempts,
        crashes,
        deferrals,
        cycles,
        suspects,
        map(moments.get, due),
        map(moments.get, ticks),
        map(moments.get, failures),
        all_restored(contexts),
        strict=True,
    )
    return list(map(as_claim, columns))


def _nonces(generations: Sequence[int], serials: Sequence[str | None], seed: int) -> list[str]:
    with_serial, without = prefix(seed, has_serial=True), prefix(seed, has_serial=False)
    return [
        f"{without if serial is None else with_serial}{generation}"
        for generation, serial in zip(generations, serials, strict=True)
    ]
