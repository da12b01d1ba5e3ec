"""A world with one thread: every process, thread and timer is an actor, and a seed says who moves next.

Actors are greenlets. One runs until it pauses; then the stage draws the next among those that could run, and
when nobody can, time leaps to the next moment at which somebody could. So a seed is a whole history: the same
seed always plays the same, and days of virtual time pass in seconds.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from greenlet import getcurrent, greenlet

from duly.testing import VirtualClock

FOREVER: Final = float("inf")


class Killed(BaseException):
    """Raised in every actor of a process that is killed, wherever it stands."""


class Process:
    """Actors that live, freeze and die together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.frozen_until = 0.0
        self.woke_at = 0.0
        """When it last came out of a freeze."""


class Actor:
    """One line of steps."""

    def __init__(self, stage: Stage, process: Process, name: str, play: Callable[[], object]) -> None:
        self.process = process
        self.name = name
        self.has_ended = False
        self.until = 0.0
        self.is_ready: Callable[[], bool] | None = None
        self.strikes: BaseException | None = None
        """An exception on its way into the actor, as one thread can send it into another."""
        self._stage = stage
        self._play = play
        self.greenlet = greenlet(self._run, parent=stage.greenlet)

    def _run(self) -> None:
        try:
            self._play()
        except Killed:
            pass
        except BaseException as error:
            self._stage.failures.append(error)
        finally:
            self.has_ended = True

    def can_move(self, now: float) -> bool:
        """Whether it would go on if it were its turn."""
        if self.process.is_dead:
            return True  # to fall over
        if now < self.process.frozen_until:
            return False
        return (
            self.strikes is not None or now >= self.until or (self.is_ready is not None and self.is_ready())
        )


class Stage:
    """Actors, their clock, and the dice."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.clock = VirtualClock()
        self.greenlet = getcurrent()
        self.actors: list[Actor] = []
        self.failures: list[BaseException] = []
        self.steps = 0
        self._current: Actor | None = None
        self._start = self.clock.boot()

    @property
    def now(self) -> float:
        """Seconds since the curtain rose."""
        return self.clock.boot() - self._start

    @property
    def current(self) -> Actor:
        """Whose turn it is."""
        assert self._current is not None, "only an actor can ask that"
        return self._current

    # what actors do

    def spawn(self, process: Process, name: str, play: Callable[[], object]) -> Actor:
        """A new line of steps, from now on."""
        actor = Actor(self, process, name, play)
        self.actors.append(actor)
        return actor

    def pause(self, seconds: float = 0.0, is_ready: Callable[[], bool] | None = None) -> None:
        """Let others move: for a time, or until something is so."""
        actor = self.current
        if actor.process.is_dead:
            raise Killed
        actor.until, actor.is_ready = self.now + seconds, is_ready
        self.greenlet.switch()
        actor.is_ready = None
        if actor.process.is_dead:
            raise Killed
        if actor.strikes is not None:
            strike, actor.strikes = actor.strikes, None
            raise strike

    # what happens to processes

    def kill(self, process: Process) -> None:
        """Nothing of it moves again."""
        process.is_dead = True

    def freeze(self, process: Process, seconds: float) -> None:
        """Nothing of it moves for a while, and nothing of it notices."""
        process.frozen_until = max(process.frozen_until, self.now + seconds)
        process.woke_at = process.frozen_until

    # the play

    def play(self, is_over: Callable[[], bool], *, longest: float) -> None:
        """Until it is over; an actor's failure ends the play."""
        while not is_over() and not self.failures:
            if self.now > longest:
                raise TimeoutError(f"not over after {longest} virtual seconds; waiting: {self._waiting()}")
            self._move()

    def _move(self) -> None:
        now = self.now
        self.actors = [actor for actor in self.actors if not actor.has_ended]
        able = [actor for actor in self.actors if actor.can_move(now)]
        if not able:
            self._leap(now)
            return
        self.steps += 1
        self._current = self.dice.choice(able)
        self._current.greenlet.switch()
        self._current = None

    def _leap(self, now: float) -> None:
        moments = [max(actor.until, actor.process.frozen_until) for actor in self.actors]
        moments += [actor.process.frozen_until for actor in self.actors if actor.is_ready or actor.strikes]
        later = [moment for moment in moments if now < moment < FOREVER]
        if not later:
            raise RuntimeError(f"nobody will ever move again: {self._waiting()}")
        self.clock.advance(timedelta(microseconds=math.ceil((min(later) - now) * 1e6)))

    def end(self) -> None:
        """Let everybody fall over, so that nothing of this play is left."""
        for actor in self.actors:
            actor.process.is_dead = True
        while any(not actor.has_ended for actor in self.actors):
            self._move()

    def _waiting(self) -> str:
        return ", ".join(
            f"{actor.process.name}/{actor.name} until {actor.until:.2f}" for actor in self.actors
        )
