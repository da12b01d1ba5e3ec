"""A turn of a worker in one message: end what is done with nothing to tell, and lend what is due.

Only what is plain goes this way: ends without result, follow-up or serial, lanes without a limit. Whatever
else the server finds (somebody spoke of a run, a switch, a dead worker, a serial, a request in the intake)
has the statements do nothing, and the operation takes its ordinary course.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from duly.lifecycle import Settled
from duly.stores.contract import Ask, Claimed, Turned
from duly.stores.drive import Operation, Row, Statement
from duly.stores.postgres.operations.arrays import integers
from duly.stores.postgres.operations.fences import new_seed
from duly.stores.postgres.operations.lanes import Track, serves
from duly.stores.postgres.operations.lot import FOUND, NOW, PROSPECTS, Lot
from duly.stores.postgres.operations.sight import Point, Sight
from duly.stores.postgres.operations.swift import Message, Outlook, Rest, Whole
from duly.stores.postgres.operations.texts import statements
from duly.stores.tables.haste import Haste
from duly.stores.tables.instants import instant, instant_or_none
from duly.stores.tables.room import SOON, is_limited

END: Final = statements("settle")["end_swiftly"]
LEND: Final = statements("lend")["lend_swiftly"]


class Plan(NamedTuple):
    """What a claim is about to ask for."""

    lanes: list[tuple[int, Track]]
    points: dict[int, Point]
    seed: int

    @property
    def is_partial(self) -> bool:
        """Some lane is looked at from a point on."""
        return any(point[1] for point in self.points.values())


class Turning:
    """One turn, or one claim alone."""

    def __init__(
        self,
        outlook: Outlook,
        sight: Sight,
        haste: Haste,
        ask: Ask,
        claiming: Operation[Claimed],
        disowned: int,
    ) -> None:
        self._outlook = outlook
        self._sight = sight
        self._haste = haste
        self._ask = ask
        self._claiming = claiming
        self._disowned = disowned

    def claim(self) -> Message[Claimed] | None:
        """Lend."""
        plan = self._plan()
        if plan is None:
            return None

        def read(answers: Sequence[list[Row]]) -> Whole[Claimed] | Rest[Claimed]:
            claimed = self._lent(plan, answers[0])
            return Rest(self._claiming, _as_it_is) if claimed is None else Whole(claimed)

        return Message((self._lending(plan, "{}"),), read)

    def turn(self, amount: int, fences: dict[str, str] | None) -> Message[Turned] | None:
        """End so many, if they are such as can be, and lend."""
        plan = None if fences is None else self._plan()
        if fences is None or plan is None:
            return None
        answers = [Settled.SETTLED] * amount

        def read(told: Sequence[list[Row]]) -> Whole[Turned] | Rest[Turned]:
            claimed = self._lent(plan, told[-1])
            if claimed is None:
                return Rest(self._claiming, partial(Turned, answers))
            return Whole(Turned(answers, claimed))

        ends = (Statement(END, fences | self._outlook.given()),) if amount else ()
        return Message((*ends, self._lending(plan, fences["generations"])), read)

    def _plan(self) -> Plan | None:
        ask, book = self._ask, self._outlook.book
        lanes = [(number, track) for number, track in book.items() if serves(ask, track)]
        if not lanes or not ask.takes_over or any(is_limited(ask.lanes[track.task]) for _, track in lanes):
            return None
        if not self._haste.is_advisable():
            return None
        return Plan(lanes, self._sight.recent_points([number for number, _ in lanes]), new_seed())

    def _lending(self, plan: Plan, settled: str) -> Statement:
        asked = {
            "worker": self._ask.worker,
            "disowned": self._disowned,
            "lanes": integers([number for number, _ in plan.lanes]),
            "ranks": integers([-track.priority for _, track in plan.lanes]),
            "since": integers([plan.points[number][0] for number, _ in plan.lanes]),
            "after": integers([plan.points[number][1] for number, _ in plan.lanes]),
            "limit": self._ask.limit,
            "seed": plan.seed,
            "newest": self._outlook.book.newest,
            "settled": settled,
        }
        return Statement(LEND, asked | self._outlook.given())

    def _lent(self, plan: Plan, rows: list[Row]) -> Claimed | None:
        """What was lent; None if nothing could be, and the ordinary way may find why."""
        head = rows[0]
        lot, found, now = Lot.read(rows, plan.seed, self._outlook.book), head[FOUND], head[NOW]
        if now is None or (not lot.claims and (plan.is_partial or found)):
            self._haste.was_in_vain()
            return None
        self._haste.was_of_use()
        self._sight.note(lot.lanes, lot.moments, lot.generations, now)
        has_more = found >= self._ask.limit or plan.is_partial
        next_at = now if has_more else _next(now, head[PROSPECTS])
        return Claimed(lot.claims, instant_or_none(next_at), instant(now))


def _as_it_is(claimed: Claimed) -> Claimed:
    return claimed


def _next(now: int, prospects: str) -> int | None:
    """When a job is due, or the lease of another worker ends that has some."""
    due, left = json.loads(prospects)
    moments: list[Any] = [due, None if left is None else now + max(left, SOON)]
    return min((moment for moment in moments if moment is not None), default=None)
