"""The planner: turns changes of followed tables into jobs, for every reactive task the store knows.

Every worker has one, in a thread of its own, and none is needed: what one leaves the next takes up. It needs
no task's code, only definitions, so a worker that cannot run a task still plans for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from duly.app import App
from duly.errors import DefinitionError, DulyError, StoreError
from duly.ids import spread
from duly.reactions import following
from duly.reactive.reaction import Reaction
from duly.stores.changes import Changes, Condition, Tended
from duly.worker.outage import Outage, backoff

log = logging.getLogger("duly.worker")

SMALLEST, LARGEST = 50, 1000
"""Changes in one transaction."""
QUICK: Final = 0.4
"""A transaction that takes less than this part of its time may be larger."""
AUDIT_EVERY: Final = 60.0
BUSY_PAUSE: Final = 1.0
SHORTEST_REST: Final = 0.1
FAREWELL: Final = 3.0
"""Seconds given at the end to a call that hangs: what it leaves undone another worker does."""


@dataclass(slots=True, kw_only=True)
class Planner:
    """Plans for one store."""

    store: Changes
    reactions: tuple[Reaction, ...]
    """Those whose code this worker has."""
    poll: timedelta
    fail: Callable[[BaseException], None]
    _is_over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _follows: bool = False
    _batch: int = 200
    _audit_at: float = 0.0
    _notes: dict[str, str] = field(default_factory=dict[str, str])
    _outage: Outage = field(default_factory=lambda: Outage("the store, for planning,"))

    @classmethod
    def of(cls, app: App, fail: Callable[[BaseException], None]) -> Planner | None:
        """The planner of an application; None where its store cannot follow tables and nobody wants it to."""
        reactions = tuple(task.reaction for task in app.tasks.values() if task.reaction is not None)
        if not reactions and not isinstance(app.store, Changes):
            return None
        return cls(store=following(app.store), reactions=reactions, poll=app.settings.poll, fail=fail)

    def prepare(self) -> None:
        """Bring definitions and install what they need; a mistake in one is an error of this start."""
        self._adopt()
        for reaction in self.reactions:
            tended = self._tend(reaction.task)
            if tended.is_mistaken:
                raise DefinitionError(f"Task {reaction.task}: {tended.note}")
        self._follows = bool(self.reactions)

    def start(self) -> None:
        """Plan from now on."""
        self._thread = threading.Thread(target=self._run, name="duly-planner", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Begin no further round."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join(FAREWELL)

    def drain(self) -> int:
        """Plan until nothing is left; answers how many changes there were. For who does not wait."""
        try:
            self._audit()
            found = 0
            while self._follows and (just_now := self.round()):
                found += just_now
            return found
        except DulyError as error:
            log.warning("what changed is left for the next worker to plan: %s", error)
            return 0

    # the loop

    def _run(self) -> None:
        failures, rest = 0, SHORTEST_REST
        try:
            while not self._is_over.is_set():
                try:
                    found = self._turn()
                except DulyError as error:
                    self._trouble(error)
                    self._is_over.wait(backoff(failures, spread()))
                    failures += 1
                else:
                    self._outage.over()
                    failures, rest = 0, SHORTEST_REST if found else self._longer(rest)
                    self._is_over.wait(0.0 if found else rest * (0.75 + spread() / 2))
        except BaseException as error:
            self.fail(error)

    def _longer(self, rest: float) -> float:
        return min(rest * 1.5, max(SHORTEST_REST, self.poll.total_seconds()))

    def _turn(self) -> int:
        if time.monotonic() >= self._audit_at:
            self._audit()
        return self.round() if self._follows else 0

    def round(self) -> int:
        """Plan a batch of changes, or take a step of a scan; answers 0 when there was neither."""
        if not self.store.run(self.store.has_changes()):
            return 0
        began = time.monotonic()
        planned = self.store.run(self.store.plan(self._batch))
        if planned.runs:
            self.store.ring()
        if not planned.changes:
            return 0 if self.store.run(self.store.scan(self._batch)) is None else 1
        self._pace(planned.changes, time.monotonic() - began)
        return planned.changes

    def _pace(self, changes: int, seconds: float) -> None:
        """Others want to write as well: in a flood of changes they are left half of the time."""
        if changes < self._batch:
            return
        allowed = self.store.planning_time.total_seconds()
        if seconds > allowed:
            self._batch = max(SMALLEST, self._batch // 2)
        elif seconds < allowed * QUICK:
            self._batch = min(LARGEST, self._batch * 2)
        self._is_over.wait(min(allowed, seconds))

    # looking after tables

    def _audit(self) -> None:
        """Are the triggers there, are the tables? Who left the code, what may be forgotten?"""
        self._adopt()
        standings = self.store.run(self.store.standings())
        tended = [self._tend(standing.reaction.task) for standing in standings]
        if standings:
            self.store.run(self.store.tidy())
        self._follows = bool(standings)
        is_busy = any(one.is_busy for one in tended)
        pause = BUSY_PAUSE if is_busy else AUDIT_EVERY * (0.75 + spread() / 2)
        self._audit_at = time.monotonic() + pause

    def _adopt(self) -> None:
        if not self.reactions:
            return
        outranked = self.store.run(self.store.adopt(self.reactions))
        for task in outranked:
            self._say(
                task,
                f"another definition of {task} is in force, from newer code: rows are chosen by that one. "
                "If this one shall count, raise its version=.",
            )

    def _tend(self, task: str) -> Tended:
        tended = self.store.run(self.store.tend(task))
        if tended.is_repaired:
            log.warning(
                "the triggers of %s had vanished and are installed again; every row is looked at", task
            )
        self._say(task, f"{task} is parked: {tended.note}" if tended.condition is Condition.PARKED else "")
        return tended

    def _say(self, task: str, note: str) -> None:
        """Once, until it changes."""
        if note and self._notes.get(task) != note:
            log.warning("%s", note)
        self._notes[task] = note

    def _trouble(self, error: DulyError) -> None:
        """One task whose rows cannot be looked at must not keep the others from being planned."""
        if isinstance(error, StoreError):
            self._outage.noted(error)
        else:
            log.error("changes could not be planned: %s", error)
        try:
            for standing in self.store.run(self.store.standings()):
                note = self.store.run(self.store.examine(standing.reaction.task))
                if note is not None:
                    self._say(standing.reaction.task, f"{standing.reaction.task} is parked: {note}")
        except DulyError:
            return  # the store is away, as was said above
