"""Synchronous bodies: each in a thread of the pool, with a context of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from datetime import timedelta
from typing import Any, cast

from duly import codec, failpoints
from duly.clock import Clock
from duly.errors import DulyError, LeaseLost
from duly.executors.errands import Stopped
from duly.executors.threads import Threads, Token
from duly.job import Delivery
from duly.run import Run, as_current
from duly.worker.endings import (
    Concluded,
    halted,
    handed_back,
    raised_with,
    returned_with,
    undecodable,
)
from duly.worker.hand import Holding
from duly.worker.onloop import bound_to, check_wanted, closed, seat


class BadArguments(Exception):
    """The stored arguments could not be rebuilt; the cause says why."""


class ThreadBodies:
    """Starts bodies in threads, from any thread, and says how they ended."""

    def __init__(self, threads: Threads, clock: Clock, *, conclude: Callable[[Concluded], None]) -> None:
        self._threads = threads
        self._clock = clock
        self.conclude = conclude
        """Takes an end, still in its thread, where no interrupt reaches it any more."""

    def start(self, holding: Holding) -> None:
        """In the next free thread; at the end of another body, in the very thread that becomes free."""
        body = ThreadBody(self, holding, seat(holding))
        token = self._threads.submit(body, body.ended, soft_limit=holding.task.options.soft_limit)
        holding.force = lambda: self._threads.interrupt(token, LeaseLost)

    def close(self, grace: timedelta) -> list[Token]:
        """End what can be ended; returns what is stuck."""
        return self._threads.close(grace=grace)

    def raised(self, holding: Holding, run: Run, failure: BaseException) -> Concluded:
        """What a failure of the body means."""
        if holding.halt is not None and isinstance(failure, asyncio.CancelledError | LeaseLost):
            return halted(holding, run, failure, str(holding.halt))
        return raised_with(holding, run, failure, self._clock.now())


class ThreadBody:
    """One body on its way through a thread."""

    __slots__ = ("_bodies", "_holding", "_run")

    def __init__(self, bodies: ThreadBodies, holding: Holding, run: Run) -> None:
        self._bodies = bodies
        self._holding = holding
        self._run = run

    def __repr__(self) -> str:
        claim = self._holding.claim
        return f"job {claim.id} ({claim.task})"

    def __call__(self) -> Any:
        """In the thread, where an interrupt may strike."""
        return Context().run(self._call)

    def _call(self) -> Any:
        holding, run, claim = self._holding, self._run, self._holding.claim
        try:
            args, kwargs = codec.unpack(claim.arguments)
        except DulyError as error:
            raise BadArguments from error
        check_wanted(holding)
        if holding.task.options.delivery is Delivery.EXACTLY_ONCE:
            bound_to(run).prepare()
        with as_current(run):
            if failpoints.armed is not None:
                failpoints.reached("before_body", claim.task)
            value = holding.task.invoke(run, args, kwargs)
            if failpoints.armed is not None:
                failpoints.reached("after_body", claim.task)
            return value

    def ended(self, value: Any, failure: BaseException | None) -> None:
        """No interrupt reaches it any more: a commit is not torn apart."""
        self._bodies.conclude(self._end(value, failure))

    def _end(self, value: Any, failure: BaseException | None) -> Concluded:
        holding, run = self._holding, self._run
        if isinstance(failure, Stopped):
            return Concluded(holding, handed_back(holding, "the worker stopped before it started"))
        if isinstance(failure, BadArguments):
            return Concluded(holding, undecodable(holding, cast(DulyError, failure.__cause__)))
        if failure is None:
            return closed(run, returned_with(holding, run, value))
        return closed(run, self._bodies.raised(holding, run, failure))
