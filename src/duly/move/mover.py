"""The steps of a move, each of which may be the last one that this process takes.

receive   the target is marked as arriving: it lends nothing, and nobody else may write there
seal      the source sends producers away and lends nothing; what runs goes on
shut      nothing runs any more, so nothing changes any more
carry     jobs in the order of their generations, the target remembering how far it has come
check     both sides are read the way everybody reads, and compared
depart    the source is gone for good: this one write decides
settle in the target is a home like any other
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from duly import failpoints
from duly.clock import Clock, SystemClock
from duly.errors import DulyError, StoreMoved, StoreUnavailable
from duly.ids import new_id
from duly.move.audit import Inventory, compared, taken_stock
from duly.stores.contract import Ask
from duly.stores.house import House, Notice, Obstacles, Stage

BATCH: Final = 500
"""Jobs per write: more would gain little, and each may carry a quarter of a megabyte of arguments."""
LOOK_EVERY: Final = 0.2
SAY_EVERY: Final = 5.0
LEASE: Final = timedelta(seconds=30)


class MoveRefused(DulyError):
    """The move cannot begin, or cannot go on; the message says in which state it leaves the source."""


@dataclass(frozen=True, slots=True)
class Moved:
    """How a move ended."""

    move: str
    inventory: Inventory | None
    """What was carried; None when an earlier run had finished already."""


@dataclass(slots=True, kw_only=True)
class Mover:
    """Carries everything from one store to another. Say it again, and it goes on where it was."""

    source: House
    target: House
    source_name: str
    target_name: str
    """As the other side will tell them to people: URLs without a password."""
    wait: timedelta
    tell: Callable[[str], None]
    advance: Callable[[int], None] = lambda _carried: None
    """Told how many jobs this run has carried so far."""
    clock: Clock = field(default_factory=SystemClock)
    pause: Callable[[float], None] = time.sleep

    def run(self) -> Moved:
        """All the steps that are left."""
        notice = self.source.run(self.source.notice())
        if notice is not None and notice.stage is Stage.GONE:
            return self._finish(notice)
        move = self._move_of(notice)
        self._receive(move)
        self._reached("received")
        self._seal(move)
        self._reached("sealed")
        self._shut(move)
        self._reached("shut")
        self._carry(move)
        self._reached("carried")
        inventory = self._check()
        self._reached("checked")
        self._depart(move)
        self._reached("departed")
        self._settle_in(move)
        return Moved(move, inventory)

    def _reached(self, step: str) -> None:
        failpoints.reached(failpoints.MOVING, step)

    # where things stand

    def _move_of(self, notice: Notice | None) -> str:
        """The move in progress, or a new one."""
        if notice is None:
            return new_id()
        if notice.stage is Stage.ARRIVING:
            raise MoveRefused(
                f"{self.source_name} is itself being filled from {notice.other}. Let that move end first."
            )
        if notice.other != self.target_name:
            raise MoveRefused(
                f"{self.source_name} is being moved to {notice.other}, not to {self.target_name}. "
                f"Go on with that target, or end it first: duly move --undo {self.source_name}"
            )
        self.tell(f"going on with a move that was {notice.stage}")
        return notice.move

    def _finish(self, notice: Notice) -> Moved:
        """Everything is over there already; perhaps nobody has told the target."""
        if self.target.run(self.target.settle_in(notice.move)):
            self.target.ring()
            self.tell("an earlier run had carried everything; the target is open now")
        elif self.target.run(self.target.arrived()) != notice.move:
            raise MoveRefused(
                f"{self.source_name} moved to {notice.other} before. {self.target_name} is another place."
            )
        return Moved(notice.move, None)

    # the steps

    def _receive(self, move: str) -> None:
        hanging = self._received(move)
        if hanging.move != move and hanging.other == self.source_name:
            self.tell("what an earlier move left at the target is cleared out")
            self.target.run(self.target.clear_out(hanging.move))
            hanging = self._received(move)
        if (hanging.move, hanging.stage) != (move, Stage.ARRIVING):
            doing = "being filled from" if hanging.stage is Stage.ARRIVING else "moving, or has moved, to"
            raise MoveRefused(f"{self.target_name} is {doing} {hanging.other}. Choose another target.")

    def _received(self, move: str) -> Notice:
        hanging = self.target.run(self.target.receive(move, self.source_name))
        if hanging is None:
            raise MoveRefused(
                f"{self.target_name} is not empty: jobs of two stores cannot be merged, since their keys, "
                "guards and generations would clash. Choose an empty database, or another --to-namespace."
            )
        return hanging

    def _seal(self, move: str) -> None:
        notice = self._sealed(move)
        if notice.move != move:
            raise MoveRefused(f"Somebody else has just begun to move {self.source_name} to {notice.other}.")
        self.source.ring()
        if notice.stage is Stage.SEALED:
            self.tell("sealed: producers are told where to go, nothing new is started")

    def _sealed(self, move: str) -> Notice:
        """Waits for writes in progress: a user's open transaction must not add to what was carried."""
        until = self.clock.boot() + self.wait.total_seconds()
        while True:
            try:
                return self.source.run(self.source.seal(move, self.target_name))
            except StoreUnavailable as error:
                if self.clock.boot() >= until:
                    self.target.run(self.target.clear_out(move))
                    raise MoveRefused(
                        f"{self.source_name} could not be sealed within {self.wait}, so nothing has changed. "
                        f"{error}"
                    ) from error
            self.pause(LOOK_EVERY)

    def _shut(self, move: str) -> None:
        """What workers that died held is taken back, so that a lease that runs out ends the wait."""
        mover = f"duly move {move}"
        drain = Drain(self)
        while True:
            notice = self.source.run(self.source.notice())
            if notice is None or notice.move != move:
                raise MoveRefused(f"The move of {self.source_name} was undone. It is open again.")
            if notice.stage is not Stage.SEALED:
                break
            self.source.run(self.source.claim(Ask(mover, {}, LEASE, limit=1, free=0)))
            drain.look(self.source.run(self.source.shut(move)))
        self.source.run(self.source.leave(mover))
        self.tell("drained: nothing runs any more")

    def _carry(self, move: str) -> None:
        notice = self.target.run(self.target.notice())
        cursor: int | None = 0 if notice is None else notice.cursor
        carried = 0
        while cursor is not None and (batch := self.source.run(self.source.pack(cursor, BATCH))):
            cursor = self.target.run(self.target.unpack(move, cursor, batch))
            carried += len(batch)
            self.advance(carried)
            self._reached("batch")
        is_furnished = cursor is not None and self._furnish(move)
        if not is_furnished:
            raise MoveRefused(
                f"Another move has taken {self.target_name} meanwhile. {self.source_name} stands still: "
                f"say the same again to go on, or open it: duly move --undo {self.source_name}"
            )
        self.tell(f"carried {carried:,} jobs")

    def _furnish(self, move: str) -> bool:
        furniture = self.source.run(self.source.furniture())
        return self.target.run(self.target.furnish(move, furniture))

    def _check(self) -> Inventory:
        source, target = taken_stock(self.source), taken_stock(self.target)
        differences = compared(source, target)
        if differences:
            first = differences[0]
            raise MoveRefused(
                f"What arrived is not what left: {first.what} is {first.source} at the source and "
                f"{first.target} at the target. Open the source again, and report this: "
                f"duly move --undo {self.source_name}"
            )
        self.tell(f"checked: {source.jobs:,} jobs and all the rest are the same on both sides")
        return source

    def _depart(self, move: str) -> None:
        if not self.source.run(self.source.depart(move)):
            raise MoveRefused(f"The move of {self.source_name} was undone. It is open again.")

    def _settle_in(self, move: str) -> None:
        self.target.run(self.target.settle_in(move))
        self.target.ring()


class Drain:
    """Waiting until nothing runs, and saying from time to time for what."""

    def __init__(self, mover: Mover) -> None:
        self._mover = mover
        self._began = mover.clock.boot()
        self._say_at = 0.0
        self._running: int | None = None

    def look(self, obstacles: Obstacles) -> None:
        """Wait a little if there is something to wait for."""
        if obstacles.unreadable:
            raise MoveRefused(
                f"{obstacles.unreadable} requests in the intake of {self._mover.source_name} can only be "
                "read by a newer version of Duly. Run `duly move` with that version."
            )
        if not any(obstacles):
            return
        now = self._mover.clock.boot()
        if now - self._began >= self._mover.wait.total_seconds():
            raise self._too_late(obstacles)
        if obstacles.running != self._running or now >= self._say_at:
            self._running, self._say_at = obstacles.running, now + SAY_EVERY
            self._mover.tell(f"waiting for {obstacles.running} running jobs")
        self._mover.pause(LOOK_EVERY)

    def _too_late(self, obstacles: Obstacles) -> MoveRefused:
        name = self._mover.source_name
        return MoveRefused(
            f"{obstacles.running} jobs still run after {self._mover.wait}. {name} stays sealed: say the same "
            f"again to go on waiting (--wait 10m), or open it again: duly move --undo {name}"
        )


def undo(source: House, target: House | None, name: str) -> Notice:
    """Open a source again, as long as it is not gone; a target that is given is cleared out."""
    notice = source.run(source.notice()) or _left_behind(target)
    if notice is None or (notice.stage is Stage.ARRIVING and notice.other != name):
        raise MoveRefused(f"{name} is not being moved anywhere: there is nothing to undo.")
    if notice.stage is Stage.ARRIVING and target is not None:
        target.run(target.clear_out(notice.move))
        return notice
    if notice.stage is Stage.GONE or not source.run(source.reopen(notice.move)):
        raise MoveRefused(f"{StoreMoved(notice.other)} It cannot be undone: move everything back instead.")
    source.ring()
    if target is not None:
        target.run(target.clear_out(notice.move))
    return notice


def _left_behind(target: House | None) -> Notice | None:
    """What hangs at a target that this source has begun to fill before it was sealed."""
    return None if target is None else target.run(target.notice())
