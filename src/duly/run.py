"""One claim to one verdict. No store in here: what a run wants of the store it leaves in its effects.

A body gets a `Run` where it asks for one by annotation. The same code serves the loop, a thread and a
child process; only who carries the answer home differs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from datetime import datetime, timedelta
from threading import Lock
from types import TracebackType
from typing import Any, Literal, Protocol

from duly import codec, context, process
from duly.durations import Duration, duration, moment
from duly.errors import (
    ArgumentsTooLarge,
    BadRequest,
    ConditionFailed,
    DulyError,
    NotInRun,
    RetryAfter,
    SoftLimitExceeded,
)
from duly.job import Claim, Delivery, Request
from duly.kinds import oneshot, perpetual
from duly.kinds.outcome import Effects, Ended, Ending, Raised, Returned
from duly.lifecycle import Verdict, named
from duly.options import Options
from duly.retry import Retry, next_grant, next_try
from duly.signals import Progress, Signal, Throttle
from duly.tracebacks import clean, describe
from duly.tracing import begin_run, is_traced

current_run: ContextVar[Run | None] = ContextVar("duly_current_run", default=None)


class Binding(Protocol):
    """What ties a run to a transaction: the worker's part of it, since no store is known here."""

    @property
    def connection(self) -> Any: ...
    def complete(self, connection: Any, result: Any) -> None: ...
    async def acomplete(self, connection: Any, result: Any) -> None: ...
    def joins(self, store: object) -> bool: ...
    def place(self, requests: Sequence[Request]) -> list[Any]: ...
    async def aplace(self, requests: Sequence[Request]) -> list[Any]: ...
    def within(self, operation: Any) -> Any: ...
    async def awithin(self, operation: Any) -> Any: ...


class Run:
    """One try at one job, as its body sees it."""

    # Most runs keep these as they are; set here, they cost a run nothing.
    _binding: Binding | None = None
    _effects: Effects | None = None
    _has_ended = False
    has_completed = False
    """The body has called `complete`: what it asks for from here on is no part of its end."""
    is_lost = False
    """The lease is gone: what the run asks of Duly is refused."""
    superseded = False
    """True once a newer request replaced this one or its lease was lost: nothing it says counts."""
    cancelled = False
    """True once somebody asked this run to stop."""

    def __init__(
        self,
        claim: Claim,
        options: Options,
        tell: Callable[[Signal], None],
        *,
        is_perpetual: bool = True,
        binding: Binding | Callable[[], Binding] | None = None,
    ) -> None:
        """`binding` may be the way to one: few bodies ask for it."""
        self._claim = claim
        self._bind = binding
        self._options = options
        self._tell = tell
        self._is_perpetual = is_perpetual
        self._ending = Lock()
        self._process = process.number

    @property
    def binding(self) -> Binding | None:
        """What ties the run to a transaction; None where nothing does."""
        if self._binding is None and self._bind is not None:
            self._binding = self._bind() if callable(self._bind) else self._bind
        return self._binding

    @property
    def bound(self) -> Binding | None:
        """The same, if somebody has asked for it."""
        return self._binding

    @property
    def effects(self) -> Effects:
        """What the body asked for."""
        if self._effects is None:
            self._effects = Effects()
        return self._effects

    @property
    def has_asked(self) -> bool:
        """False of most bodies: they asked for nothing."""
        return self._effects is not None

    @property
    def id(self) -> str:
        """The job's id."""
        return self._claim.id

    @property
    def task(self) -> str:
        """The task's name."""
        return self._options.name

    @property
    def key(self) -> str | None:
        """What the work is about, if the request said so."""
        return self._claim.key

    @property
    def generation(self) -> int:
        """The order of this request among all requests."""
        return self._claim.generation

    @property
    def epoch(self) -> int:
        """How often the job was lent: a fencing token for systems outside."""
        return self._claim.epoch

    @property
    def attempt(self) -> int:
        """1 for the first try of this cycle, 2 after one failure, and so on."""
        return self._claim.attempt + 1

    @property
    def tick(self) -> datetime | None:
        """The instant of the schedule this run stands for."""
        return self._claim.tick

    @property
    def due(self) -> datetime:
        """When the job was to run, as first asked for."""
        return self._claim.due

    @property
    def idempotency_key(self) -> str:
        """For calls to the outside: the same over retries, crashes and deferrals of one cycle."""
        return self._claim.idempotency_key

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the job's id, task, key, attempt and epoch."""
        return logging.LoggerAdapter(logging.getLogger(f"duly.task.{self.task}"), log_context(self._claim))

    @property
    def connection(self) -> Any:
        """The connection of an exactly-once run, whose transaction Duly commits together with the completion.

        It begins with the body's first statement. In an async body its methods are awaited.
        """
        if self._options.delivery is not Delivery.EXACTLY_ONCE:
            raise NotInRun(
                f"Task {self.task} has no transaction: declare it with delivery='exactly_once' to get "
                "run.connection, or open one yourself and call run.complete(connection) in it."
            )
        return self._bound("connection").connection

    def complete(self, connection: Any, *, result: Any = None) -> None:
        """Complete the run inside a transaction that the body opened on the store's database.

        Effects and completion then commit together. Raises LeaseLost, and the transaction must roll back,
        when the run no longer owns its job. Nothing more is written when the body returns: Duly only looks
        whether the transaction was committed. Of a transaction that is tried again each try calls it.
        """
        self._bound("complete()").complete(connection, result)

    async def acomplete(self, connection: Any, *, result: Any = None) -> None:
        """The async twin of complete."""
        await self._bound("acomplete()").acomplete(connection, result)

    def _bound(self, word: str) -> Binding:
        if self.binding is None:
            raise NotInRun(
                f"run.{word} needs a worker: a plain call of {self.task} completes nothing. "
                "Enqueue it; in a test give virtual(app, transactions=…) a connection to work on."
            )
        return self.binding

    def again(self, *, after: Duration | None = None, at: datetime | None = None) -> None:
        """Say when a perpetual task's next cycle is due. The last call counts."""
        self._refuse_unless_perpetual("again")
        if (after is None) == (at is None):
            raise DulyError("run.again() takes either after='30s' or at=a datetime with a time zone.")
        self.effects.again_at = None if at is None else moment(at, at, what="at")
        self.effects.again_after = None if after is None else duration(after, what="after")
        self.effects.stops = False

    def stop(self) -> None:
        """End a perpetual task after this cycle; it stays stopped until somebody enqueues it."""
        self._refuse_unless_perpetual("stop")
        self.effects.stops = True

    def _refuse_unless_perpetual(self, word: str) -> None:
        if not self._is_perpetual:
            raise NotInRun(
                f"run.{word}() is for cycles, and {self.task} has none: "
                "declare it with @app.perpetual(every=…)."
            )

    def defer(self, wait: Duration) -> None:
        """Put this job off: no attempt is counted, also if the body raises afterwards."""
        self.effects.defers = duration(wait, what="defer")

    def throttle(
        self, wait: Duration, *, scope: Literal["cluster", "process"] = "cluster", reason: str = ""
    ) -> None:
        """Hold all further jobs of this task for a while; this run is not affected."""
        self._tell(Throttle(self.task, duration(wait, what="throttle"), scope, clean(str(reason))))

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell how far the run is; readers see it within a second."""
        self._tell(Progress(_number(done), None if total is None else _number(total), clean(str(message))))

    def take(self, request: Request) -> bool:
        """A request for the run's own key becomes part of its settle. The last one counts.

        False once the body has ended, or has settled the run by `complete`: what comes after it speaks for
        itself, as anybody else does.
        """
        with self._ending:
            is_part = not self._has_ended and not self.has_completed
            if is_part:
                self.effects.requests = [request]
            return is_part

    @property
    def is_live_here(self) -> bool:
        """The body goes on, in this very process: one that it forked has no say in its transaction."""
        return not self._has_ended and process.number == self._process

    def end(self) -> None:
        """The body is over."""
        with self._ending:
            self._has_ended = True

    def owns(self, request: Request) -> bool:
        """Whether a request is for this run's own key. A process the body forked has no say in its settle."""
        is_here = process.number == self._process
        return (
            is_here and self.key is not None and (request.task, request.key) == (self._claim.task, self.key)
        )


def _number(value: object) -> float:
    if isinstance(value, int | float) and math.isfinite(value):
        return value
    raise BadRequest(f"run.progress({value!r}) is not a number of steps: pass an int or a finite float.")


def log_context(claim: Claim) -> dict[str, object]:
    """What every log line of a run carries."""
    return {
        "job_id": claim.id,
        "task_name": claim.task,
        "job_key": claim.key,
        "attempt": claim.attempt + 1,
        "epoch": claim.epoch,
    }


def is_unaccompanied(claim: Claim) -> bool:
    """Nobody traces it, and nothing was bound where it was asked for: `current_run` is all it needs."""
    return claim.context == context.NOTHING and not is_traced()


class as_current:  # noqa: N801  reads like a function where it is used
    """Requests made inside belong to this run, and so do spans; what its request was made under is bound.

    A class, because every run enters it: a generator would cost it a microsecond.
    """

    __slots__ = ("_restored", "_run", "_span", "_token")

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> None:
        claim = self._run._claim  # pyright: ignore[reportPrivateUsage]
        self._token = current_run.set(self._run)
        self._span = begin_run(claim)
        self._restored = None if claim.context == context.NOTHING else context.restored(claim.context)
        if self._restored is not None:
            self._restored.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._restored is not None:
            self._restored.__exit__()
        self._run.end()
        if self._span is not None:
            if error is not None:
                self._span.failed(error)
            self._span.end()
        current_run.reset(self._token)


def returned(options: Options, value: Any) -> Ending:
    """A result that cannot be stored is a failure of the task, told as such."""
    if options.keep_result is None:
        return Returned()
    try:
        return Returned(codec.pack_value(value))
    except ArgumentsTooLarge as error:
        return Raised(f"The result is too large to keep: {error}", reason="result cannot be stored")
    except DulyError as error:
        return Raised(f"Unsupported type in the result: {error}", reason="result cannot be stored")


def raised(options: Options, claim: Claim, error: BaseException, *, now: datetime, spread: float) -> Ending:
    """What an exception means: skip, another try, or failure."""
    if isinstance(error, ConditionFailed):
        return Raised(clean(str(error)) or "its condition no longer holds", skips=True)
    return Raised(
        describe(error),
        retry_after=_wait(options, claim, error, now=now, spread=spread),
        reason="soft limit exceeded" if isinstance(error, SoftLimitExceeded) else "failed",
    )


def _wait(
    options: Options, claim: Claim, error: BaseException, *, now: datetime, spread: float
) -> timedelta | None:
    if options.delivery is Delivery.AT_MOST_ONCE:  # whatever the body asks for, it has run once
        return None
    asked = duration(error.after, what="RetryAfter") if isinstance(error, RetryAfter) else None
    at = next_try(
        options.retry or (None if asked is None else ASKED),
        error,
        attempt=claim.attempt + 1,
        first_failure=claim.first_failure or now,
        now=now,
        spread=spread,
        asked=asked,
    )
    return None if at is None else max(at - now, timedelta(0))


ASKED = Retry(on=RetryAfter, attempts=5)
"""The budget of a body that raises RetryAfter without a policy of its own."""


def limit_exceeded(
    options: Options, claim: Claim, limit: timedelta, *, now: datetime, spread: float
) -> Ending:
    """A hard limit ends the run, not the job: it goes on within its attempts, whatever `on` lists."""
    error, reason = f"hard limit of {limit.total_seconds():g} s exceeded", "hard limit exceeded"
    if options.retry is None:
        return Raised(error, reason=reason)
    first_failure = claim.first_failure or now
    at = next_grant(
        options.retry, attempt=claim.attempt + 1, first_failure=first_failure, now=now, spread=spread
    )
    return Raised(error, None if at is None else max(at - now, timedelta(0)), reason=reason)


def decide(
    options: Options, cycle: perpetual.Cycle | None, claim: Claim, ending: Ending, effects: Effects
) -> Verdict:
    """The verdict of the task's kind."""
    ended = Ended(options, claim, ending, effects)
    return named(oneshot.decide(ended) if cycle is None else perpetual.decide(ended, cycle))


def failed(options: Options, cycle: perpetual.Cycle | None, claim: Claim, error: str, reason: str) -> Verdict:
    """A failure the body had no part in: it ends a job, and of a perpetual only the cycle."""
    return decide(options, cycle, claim, Raised(error, reason=reason), Effects())


UNDECODABLE = "arguments cannot be decoded"
"""Not a crash loop: one failure that names the reason."""
