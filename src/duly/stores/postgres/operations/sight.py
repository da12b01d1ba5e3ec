"""Where a claim begins to look in a lane.

Lent jobs leave dead entries at the head of the index until a vacuum may remove them, which it may not while
anybody holds an old snapshot; a claim that starts from the beginning walks over all of them. So a process
remembers how far it has lent. What became visible behind that point, because it was committed late or is due
since long ago, is found by looking back: every hundred claims, every second, and whenever there is room left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

Point = tuple[int, int]
"""When a job became ready, and its generation."""

LANE, READY_AT = 3, 15
"""Places in the rows of what was lent; the generation is the first."""

START: Final[Point] = (-(2**63), 0)
WORTH_IT: Final = 1000
"""Jobs lent from a lane before its dead entries are worth stepping over."""
CLAIMS: Final = 100
A_SECOND: Final = 1_000_000
PAUSE: Final = 50_000
"""Microseconds between two looks back for the sake of room that is left."""


@dataclass(slots=True)
class _Lane:
    lent: int = 0
    reached: Point = START
    claims: int = 0
    looked_back: int = 0


class Sight:
    """How far one process has lent in each lane."""

    def __init__(self) -> None:
        self._lanes: dict[int, _Lane] = {}
        self._now = 0

    def recent_points(self, lanes: Iterable[int]) -> dict[int, Point]:
        """After which point to look, by the time of the last claim, where the time is not known yet."""
        return self.points(lanes, self._now)

    def points(self, lanes: Iterable[int], now: int) -> dict[int, Point]:
        """After which point to look in each lane."""
        self._now = now
        return {number: self._point(number, now) for number in lanes}

    def _point(self, number: int, now: int) -> Point:
        lane = self._lanes.get(number)
        if lane is None or lane.lent < WORTH_IT:
            return START
        lane.claims += 1
        # A clock that stepped back must not keep us from looking.
        if lane.claims >= CLAIMS or not 0 <= now - lane.looked_back < A_SECOND:
            self._look_back(lane, now)
            return START
        return lane.reached

    def may_look_back(self, lanes: Sequence[int], now: int) -> bool:
        """Whether it is time to look at everything in lanes that were looked at in part."""
        return all(not 0 <= now - self._lanes[number].looked_back < PAUSE for number in lanes)

    def look_back(self, lanes: Sequence[int], now: int) -> None:
        for number in lanes:
            self._look_back(self._lanes[number], now)

    def _look_back(self, lane: _Lane, now: int) -> None:
        lane.claims = 0
        lane.looked_back = now

    def note(
        self, lanes: Sequence[int], moments: Sequence[int], generations: Sequence[int], now: int
    ) -> None:
        """These were lent, each lane's in order."""
        self._now = now
        amounts = Counter(lanes)
        for place in reversed(range(len(lanes))):
            if not amounts:
                break
            amount = amounts.pop(lanes[place], 0)
            if amount:
                self.lent(lanes[place], amount, (moments[place], generations[place]))

    def lent(self, number: int, amount: int, last: Point) -> None:
        lane = self._lanes.setdefault(number, _Lane())
        lane.lent += amount
        lane.reached = max(lane.reached, last)

    def forget(self) -> None:
        self._lanes = {}
