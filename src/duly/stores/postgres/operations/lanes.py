"""Lanes by number, and which of them move: served by a worker, and not held by a switch.

A lane is a queue, a task and a priority. Each has a row of its own that is never deleted, so a process
remembers the numbers it has seen committed, and jobs need carry no names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from duly.job import Job, Request
from duly.stores.contract import Ask, Lane, Scope
from duly.stores.drive import Operation, Row, Statement, Steps
from duly.stores.postgres.operations.again import Needs, Repeat
from duly.stores.postgres.operations.arrays import integers, restored, stored, words
from duly.stores.postgres.operations.moment import Moment
from duly.stores.postgres.operations.texts import statements

SQL = statements("lanes")


class Track(NamedTuple):
    """What a lane is made of."""

    queue: str
    task: str
    priority: int


class Book:
    """The lanes this process knows. Only committed ones: others might never come to be."""

    def __init__(self) -> None:
        self._numbers: dict[Track, int] = {}
        self._tracks: dict[int, Track] = {}
        self._newest = 0

    def number(self, track: Track) -> int:
        """The number of a lane; one nobody has used before is made first."""
        found = self._numbers.get(track)
        if found is None:
            raise self._lacks([track])
        return found

    def prepare(self, requests: Iterable[Request | Job]) -> None:
        """See to it that every lane of a batch has a number, with one interruption at most."""
        tracks = {Track(request.queue, request.task, request.priority) for request in requests}
        missing = [track for track in tracks if track not in self._numbers]
        if missing:
            raise self._lacks(missing)

    def track(self, number: int) -> Track:
        """What a number stands for. One made since the operation began is known at its next try."""
        try:
            return self._tracks[number]
        except KeyError:
            raise Repeat(f"lane {number} is new") from None

    def update(self, moment: Moment) -> Steps[None]:
        """Learn what other processes added; numbers are committed in rising order."""
        if moment.newest_lane > self._newest:
            self.learn((yield Statement(SQL["since"], {"newest": self._newest})))

    def learn(self, rows: Iterable[Row]) -> None:
        for number, queue, task, priority in rows:
            track = Track(restored(queue), restored(task), priority)
            self._tracks[number] = track
            self._numbers[track] = number
            self._newest = max(self._newest, number)

    @property
    def newest(self) -> int:
        """Up to which number every lane is known."""
        return self._newest

    def find(self, track: Track) -> int | None:
        """The number of a lane, if it is known."""
        return self._numbers.get(track)

    def find_or_make(self, moment: Moment, track: Track) -> Steps[list[Row]]:
        """Learn of a lane that another process made; else make it, and answer what to learn afterwards."""
        yield from self.update(moment)
        return [] if track in self._numbers else (yield from _make([track]))

    def items(self) -> list[tuple[int, Track]]:
        """Every lane known, oldest first."""
        return list(self._tracks.items())

    def forget(self) -> None:
        """The schema may be another one at the next opening."""
        self._numbers, self._tracks, self._newest = {}, {}, 0

    def _lacks(self, missing: Iterable[Track]) -> Needs:
        def steps() -> Steps[list[Row]]:
            return (yield from _make(sorted(missing)))

        return Needs(Operation("lanes", steps), self.learn_made)

    def learn_made(self, rows: Iterable[Row]) -> None:
        """Without moving the mark up to which every lane is known: others may lie before it."""
        newest = self._newest
        self.learn(rows)
        self._newest = newest


def _make(tracks: list[Track]) -> Steps[list[Row]]:
    """One at a time over all processes, so that a number seen means that all before it are to be seen."""
    yield Statement(SQL["serialise"])
    given = {
        "queues": words([stored(track.queue) for track in tracks]),
        "tasks": words([stored(track.task) for track in tracks]),
        "priorities": integers([track.priority for track in tracks]),
    }
    yield Statement(SQL["make"], given)
    return list((yield Statement(SQL["made"], given)))


def serves(ask: Ask, track: Track) -> bool:
    """Whether this worker may take jobs of that task from that queue."""
    lane = ask.lanes.get(track.task)
    return lane is not None and (ask.queues is None or track.queue in ask.queues or lane.on_any_queue)


class Holds:
    """The switches in force."""

    def __init__(self, switches: Mapping[tuple[str, str], int | None]) -> None:
        self._switches = switches

    def on(self, lane: Lane, queue: str) -> int | bool | None:
        """None when the lane moves; else until when it is held, or True for good."""
        if not self._switches:
            return None
        names = [(Scope.QUEUE, queue), *((Scope.TASK, task) for task in (lane.task, *lane.held_by))]
        for name in names:
            if name in self._switches:
                return self._switches[name] or True
        return None
