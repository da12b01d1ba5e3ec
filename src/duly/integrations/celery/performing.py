"""One delivery by Celery to one verdict of Duly, and the verdict in Celery's words."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NoReturn

from celery.exceptions import SoftTimeLimitExceeded

from duly import codec, context
from duly.clock import SystemClock
from duly.errors import DulyError, SoftLimitExceeded, StoreUnavailable
from duly.ids import spread
from duly.integrations.celery.guards import Guards
from duly.integrations.celery.packet import Packet
from duly.lifecycle import CRASH_CAP, Defer, Done, Skip, TryAgain, Verdict, error_of
from duly.run import Run, as_current, decide, raised, returned
from duly.task import Task

log = logging.getLogger("duly.celery")

AnyTask = Task[..., Any, Any]

LIMIT_SIGNAL: Final = getattr(signal, "SIGUSR1", None)
"""What Celery's prefork pool tells a child that its soft limit has passed with."""


class CrashedTooOften(DulyError):
    """A task whose process died each time it was started; it is not started again."""


class Delivery:
    """One message in the hands of a Celery worker."""

    def __init__(self, carrier: Any, task: AnyTask, guards: Guards | None, packet: Packet) -> None:
        self._carrier = carrier
        self._task = task
        self._guards = guards
        self._packet = packet

    def perform(self) -> Any:
        """Run the body; returns, raises or retries as Celery expects of a task."""
        task = self._task
        claim = self._packet.claim(task.options, starts=self._count_start())
        run = Run(claim, task.options, tell=_let_go, is_perpetual=False)
        cause: BaseException | None = None
        try:
            ending = returned(task.options, self._called(run))
        except (SystemExit, KeyboardInterrupt):  # the worker's own end, not the body's
            raise
        except BaseException as error:
            cause, ending = error, raised(task.options, claim, error, now=_now(), spread=spread())
        verdict = decide(task.options, None, claim, ending, run.effects)
        self._forget_start()
        return self._carry_out(verdict, cause)

    def _called(self, run: Run) -> Any:
        args, kwargs = codec.unpack(self._newest())
        with as_current(run), context.restored(self._packet.context), duly_limit(self._task.name):
            value = self._task.invoke(run, args, kwargs)
            return asyncio.run(value) if self._task.is_async else value

    def _newest(self) -> str:
        """A trailing request runs with the arguments of the last one that came in its window."""
        packet = self._packet
        if not packet.is_trailing or self._guards is None:
            return packet.arguments
        return self._guards.newest(packet.id, f"{self._task.name}|{packet.key}") or packet.arguments

    def _carry_out(self, verdict: Verdict, cause: BaseException | None) -> Any:
        match verdict:
            case Done(result=result):
                return result
            case Skip(reason=reason):
                log.info("%s was skipped: %s", self._packet.id, reason)
                return None
            case TryAgain(after=after):
                return self._again(self._packet.failed(_now()), after.total_seconds(), cause)
            case Defer(after=after):
                return self._again(self._packet.deferred(), after.total_seconds(), None)
            case _:
                return _fail(error_of(verdict) or "failed", cause)

    def _again(self, packet: Packet, seconds: float, cause: BaseException | None) -> NoReturn:
        reason = cause if isinstance(cause, Exception) else None
        raise self._carrier.retry(
            exc=reason,
            countdown=seconds,
            kwargs={"packet": packet.written()},
            kwargsrepr=packet.shown(self._task.options),
            throw=False,
        )

    # What died before.

    def _count_start(self) -> int:
        """Celery delivers what killed its process again and again: here the fourth time is a failure."""
        if self._guards is None:
            return 1
        try:
            starts = self._guards.count_start(self._packet.start)
        except StoreUnavailable as error:
            log.warning("deaths of %s are not counted now: %s", self._packet.id, error)
            return 1
        if starts > CRASH_CAP:
            self._forget_start()
            raise CrashedTooOften(
                f"{self._task.name} ({self._packet.id}) was started {CRASH_CAP} times and ended its process "
                "each time: killed, out of memory, or beyond its hard limit. It is not started again."
            )
        return starts

    def _forget_start(self) -> None:
        if self._guards is None:
            return
        try:
            self._guards.forget_start(self._packet.start)
        except StoreUnavailable as error:
            log.warning("an end of %s could not be noted: %s", self._packet.id, error)


def _now() -> datetime:
    return SystemClock().now()


def _let_go(signal: object) -> None:
    """Progress and throttles have no place in Celery."""


def _fail(error: str, cause: BaseException | None) -> NoReturn:
    """The body's own exception, so that Celery tells it; one of Duly's only where there was none."""
    if isinstance(cause, SoftLimitExceeded):
        raise SoftTimeLimitExceeded(*cause.args) from cause
    if isinstance(cause, Exception):
        raise cause
    raise DulyError(error) from cause


@contextmanager
def duly_limit(name: str) -> Generator[None]:
    """Inside, the soft limit is the exception that the body knows from Duly.

    Only a prefork child has a main thread to itself; other pools of Celery keep no limits.
    """
    if LIMIT_SIGNAL is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def exceeded(_number: int, _frame: object) -> None:
        raise SoftLimitExceeded(f"the soft limit of {name} has passed")

    before = signal.signal(LIMIT_SIGNAL, exceeded)
    try:
        yield
    finally:
        signal.signal(LIMIT_SIGNAL, before)
