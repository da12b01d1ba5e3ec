"""Whom the next claim is for: schedules come first in every claim, and must not be all there is in it.

They need no slot and their turns are short, so usually one claim asks for everything. Where more of them are
due than a claim holds, claims go round: everything, then many schedules at once, then tasks alone. Otherwise
a thousand schedules of one second would leave no room for the jobs that they make.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from duly.stores.contract import Lane
from duly.worker.lanes import Lanes
from duly.worker.tempo import LARGEST_BATCH


class Whom(Enum):
    """The lanes of one claim."""

    EVERYTHING = auto()
    SCHEDULES = auto()
    TASKS = auto()


AFTER_A_CROWD = {
    Whom.EVERYTHING: Whom.SCHEDULES,
    Whom.SCHEDULES: Whom.TASKS,
    Whom.TASKS: Whom.EVERYTHING,
}


class Rota:
    """Which lanes are asked for, and for how many of them."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._whom = Whom.EVERYTHING
        self._room = 0

    def next(self, room: int, now: float) -> tuple[Mapping[str, Lane], int]:
        """The lanes and the limit of a claim; without room for bodies there is still some for schedules."""
        self._room = room
        if not room or self._whom is Whom.SCHEDULES:
            return self._lanes.schedules, LARGEST_BATCH
        if self._whom is Whom.TASKS:
            return self._lanes.open_tasks(now), room
        return self._lanes.open(now), room

    def note(self, *, bodies: int, schedules: int) -> bool:
        """What the claim brought; true if it looked at all there was room for."""
        if not self._room:
            return True
        asked = self._whom
        is_crowded = schedules > 0 and bodies + schedules >= self._room
        if asked is not Whom.EVERYTHING or is_crowded:
            self._whom = AFTER_A_CROWD[asked]
        return asked is Whom.EVERYTHING
