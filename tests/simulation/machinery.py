"""Threads, events, locks and clocks of a simulated process, in the places where the worker takes them from.

The worker's own code runs unchanged: only what the modules below call `time`, `threading`, `Threads` and
`os.urandom` is the stage's. Reentrant locks stay real: nobody pauses while holding one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from typing import Any, Final

import pytest
from tests.simulation.stage import FOREVER, Actor, Killed, Stage

from duly import codec, context, ids
from duly.errors import LeaseLost
from duly.executors.children import ChildDied, Stopped
from duly.ids import spread
from duly.run import Run, as_current, raised, returned
from duly.stores import bells
from duly.stores.memory import store as memory
from duly.worker import arrival, beat, bench, chores, hearing, isolation, outage, pump, worker
from duly.worker.endings import Concluded, judge
from duly.worker.hand import Holding

SHORTEST: Final = 1e-5
"""Even a wait for nothing takes a moment: otherwise a loop of such waits would never end."""


class Dies(BaseException):
    """Raised by a body whose process ends here."""


def install(stage: Stage, patch: pytest.MonkeyPatch) -> None:
    """Put the stage's time and threads where the worker looks for them."""
    for module in (worker, pump, hearing, chores, beat, outage, arrival, bench, isolation, memory, bells):
        if hasattr(module, "time"):
            patch.setattr(module, "time", StageTime(stage))
        if hasattr(module, "threading"):
            patch.setattr(module, "threading", StageThreading(stage))
    patch.setattr(beat, "SystemClock", lambda: stage.clock)
    patch.setattr(bench, "Threads", partial(StageThreads, stage))
    patch.setattr(bench, "Isolation", partial(StageIsolation, stage))
    patch.setattr(isolation, "can_travel", _travels)
    patch.setattr(ids, "os", SeededSystem(stage))
    patch.setattr(ids, "time_ns", lambda: int(stage.clock.now().timestamp() * 1e9))
    patch.setattr(ids, "_source", ids._Source())  # pyright: ignore[reportPrivateUsage]


def _travels(task: object) -> bool:
    return True


class SeededSystem:
    """What `duly.ids` wants of the operating system."""

    def __init__(self, stage: Stage) -> None:
        self.urandom = stage.dice.randbytes
        self.getpid = os.getpid


class StageTime:
    """The `time` module, as far as the worker uses it."""

    def __init__(self, stage: Stage) -> None:
        self.monotonic = stage.clock.boot


class StageThreading:
    """The `threading` module, as far as the worker uses it."""

    RLock = staticmethod(threading.RLock)

    def __init__(self, stage: Stage) -> None:
        self.Event = partial(StageEvent, stage)
        self.Lock = partial(StageLock, stage)
        self.Thread = partial(StageThread, stage)


class StageEvent:
    """An event actors can wait for."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            self._stage.pause(FOREVER if timeout is None else max(timeout, SHORTEST), self.is_set)
        return self._is_set


class StageLock:
    """A lock actors can wait for, also one that somebody else releases."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._is_free = True

    def acquire(self, *, timeout: float = FOREVER) -> bool:
        if not self._is_free:
            self._stage.pause(max(timeout, SHORTEST), lambda: self._is_free)
        was_free, self._is_free = self._is_free, False
        return was_free

    def release(self) -> None:
        if self._is_free:
            raise RuntimeError("release unlocked lock")
        self._is_free = True

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class StageThread:
    """A thread of whatever process starts it."""

    def __init__(self, stage: Stage, *, target: Callable[[], object], name: str, daemon: bool) -> None:
        self._stage = stage
        self._target = target
        self._name = name
        self._actor: Actor | None = None

    def start(self) -> None:
        self._actor = self._stage.spawn(self._stage.current.process, self._name, self._target)

    def is_alive(self) -> bool:
        return self._actor is not None and not self._actor.has_ended

    def join(self, timeout: float | None = None) -> None:
        self._stage.pause(FOREVER if timeout is None else timeout, lambda: not self.is_alive())


class StageThreads:
    """The pool for synchronous bodies: a body's thread is an actor."""

    def __init__(
        self,
        stage: Stage,
        size: int,
        *,
        fail: Callable[[BaseException], None],
        freed: Callable[[], None] = lambda: None,
    ) -> None:
        self._stage = stage
        self._process = stage.current.process
        self._freed = freed

    def submit(
        self,
        body: Callable[[], Any],
        done: Callable[[Any, BaseException | None], None],
        *,
        soft_limit: timedelta | None = None,
    ) -> Actor:
        def play() -> None:
            try:
                value = body()
            except Killed:
                raise
            except Dies:
                self._stage.kill(self._process)
                raise Killed from None
            except BaseException as error:
                done(None, error)
            else:
                done(value, None)
            self._freed()

        return self._stage.spawn(self._process, "body", play)

    def interrupt(self, token: Actor, error: type[BaseException]) -> None:
        token.strikes = error()

    def close(self, *, grace: timedelta) -> list[Any]:
        return []


class StageIsolation(isolation.Isolation):
    """Child processes: a child is a process that dies alone, and with its parent."""

    def __init__(self, stage: Stage, **words: Any) -> None:
        super().__init__(**words)
        self._stage = stage
        self._process = stage.current.process

    def start(self, holding: Holding, run: Run) -> None:
        future: Future[bytes] = Future()
        future.add_done_callback(lambda ended: self._child_ended(holding, run, ended))
        child = self._stage.spawn(self._process, "child", lambda: self._live(holding, run, future))
        holding.stop_by(lambda: _strike(child, Stopped(str(holding.halt))))

    def _live(self, holding: Holding, run: Run, future: Future[bytes]) -> None:
        task, claim = holding.task, holding.claim
        try:
            args, kwargs = codec.unpack(claim.arguments)
            with as_current(run), context.restored(claim.context):
                value = task.invoke(run, args, kwargs)
        except Killed:
            raise
        except Dies:
            future.set_exception(ChildDied(-9))
            return
        except (Stopped, LeaseLost):
            future.set_exception(Stopped(str(holding.halt)))
            return
        except BaseException as error:
            now, failure = self._clock.now(), error
            verdict = judge(
                holding,
                run.effects,
                lambda: raised(task.options, claim, failure, now=now, spread=spread()),
            )
        else:
            verdict = judge(holding, run.effects, lambda: returned(task.options, value))
        self._conclude(Concluded(holding, verdict, tuple(run.effects.requests)))


def _strike(actor: Actor, error: BaseException) -> None:
    if not actor.has_ended:
        actor.strikes = error
