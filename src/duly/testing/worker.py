"""A worker without threads: it claims one job, runs it and settles it, by the rules of the real one.

Everything that decides (verdicts, ticks, hooks, limits, what a beat means) is the worker's own code. Only
the carrying is done here, in one line of steps that a test can stop at five named points.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from threading import Thread
from typing import Any, Final, Literal

from duly import codec, context
from duly.app import App
from duly.errors import DulyError, LeaseLost, SoftLimitExceeded
from duly.job import Claim, Delivery, State
from duly.kinds.outcome import Ending
from duly.lifecycle import Release, Settled, error_of
from duly.run import Run, as_current, raised, returned
from duly.signals import Signal, Throttle
from duly.stores.contract import Ask, Claimed, Scope, Settlement, Switch, WorkerCard
from duly.testing.drive import Body
from duly.testing.ran import Ran, record
from duly.testing.transactions import VirtualBinding, VirtualCounter
from duly.worker.beat import Heartbeat
from duly.worker.doubts import sort_out
from duly.worker.endings import Concluded, judge, outcome_of, settlement_of, tell_end, undecodable
from duly.worker.failures import hook_call
from duly.worker.hand import Hand, Holding
from duly.worker.hearing import packed_progress
from duly.worker.lanes import Lanes
from duly.worker.turns import take_turns

NO_CHANCE: Final = 0.0
"""The random number of a test: a delay with jitter is the whole delay."""

FAILURES: Final = (Exception, SystemExit, SoftLimitExceeded, LeaseLost, asyncio.CancelledError)
"""What a body may raise. Everything else (Ctrl-C, a test framework's own signals) is the test's."""

Point = Literal["after_claim", "before_body", "after_body", "before_settle", "after_settle"]

Life = Generator[Point | Body, Any, Ran]
"""A run: it yields where it is, and the coroutines of async bodies."""


class VirtualWorker:
    """One imagined worker process with one slot."""

    def __init__(self, app: App, name: str) -> None:
        self.name = name
        self.is_alive = True
        """False once it crashed, and while it is frozen: then it does not beat."""
        self._app = app
        self._hand = Hand()
        self._counter = VirtualCounter(app, name, getattr(app.store, "transactions", None))
        self._throttled: dict[str, float] = {}
        card = WorkerCard(name, name, "virtual", 0, app.clock.now(), tasks=tuple(app.tasks), slots=1)
        self._heart = Heartbeat(
            store=app.store, card=card, lease=app.settings.lease, hand=self._hand, fail=_fail
        )
        self.beat()

    @property
    def is_busy(self) -> bool:
        """It holds a run: somebody else must do what is due meanwhile."""
        return len(self._hand) > 0

    def beat(self) -> None:
        """Renew the lease, and learn what became of the run in hand."""
        self._heart.beat()

    # claiming

    def claim(self) -> Claimed:
        """The next due job, or the moment at which there may be one."""
        app, boot = self._app, self._app.clock.boot()
        lanes = Lanes(app, None)
        for task, until in self._throttled.items():
            lanes.throttle(task, until)
        ask = Ask(self.name, lanes.open(boot), app.settings.lease, limit=1, free=1)
        claimed = app.store.run(app.store.claim(ask))
        return claimed._replace(next_at=self._earliest(claimed.next_at))

    def _earliest(self, next_at: datetime | None) -> datetime | None:
        """A lane throttled in this process alone is one the store knows nothing of."""
        now, boot = self._app.clock.now(), self._app.clock.boot()
        ends = [now + timedelta(seconds=until - boot) for until in self._throttled.values() if until > boot]
        return min([*ends, *([next_at] if next_at else [])], default=None)

    def take(self, claim: Claim) -> Holding:
        """A claim in hand: from here on this worker answers for it."""
        holding = Holding(claim, self._app.tasks[claim.task])
        self._hand.take([holding])
        return holding

    def tick(self, claimed: Claimed) -> None:
        """A schedule's turn: there is no body to run."""
        settlements = take_turns(self._app, claimed)
        self._app.store.run(self._app.store.settle(self.name, settlements))

    def refuse(self, claim: Claim) -> None:
        """Give a claim back untouched."""
        settlement = Settlement(claim.fence, Release(note="not taken"))
        self._app.store.run(self._app.store.settle(self.name, [settlement]))

    # running

    def live(self, holding: Holding) -> Life:
        """One run, from its claim to the store's answer."""
        at = self._app.clock.now()
        yield "after_claim"
        if self._may_start(holding):
            yield "before_body"
            ended, binding = yield from self._try_body(holding)
            try:
                yield "after_body"
                yield "before_settle"
                ended = yield from self._close(ended, binding)
            finally:
                binding.drop()  # a process that dies here rolls back
        else:
            ended = Concluded(holding, Release(note="superseded or cancelled before it started"))
            yield "before_settle"
        answer = ended.answer or self._settle(ended)
        self._hand.drop([holding.claim.fence])
        yield "after_settle"
        self._tell(ended, answer)
        return record(
            holding.claim,
            at,
            outcome_of(ended.verdict, answer),
            self.state_of(holding),
            error=error_of(ended.verdict),
            exception=ended.cause,
            verdict=ended.verdict,
        )

    def _close(self, ended: Concluded, binding: VirtualBinding) -> Generator[Body, Any, Concluded]:
        """In the test's transaction, where the body had one."""
        had_returned = ended.has_returned
        closed: Concluded = (yield binding.aclose(ended)) if binding.is_awaited else binding.close(ended)
        if closed.meant is not None:
            settled, others = sort_out(self._app.store, [closed])
            closed = [*settled, *others][0]
        answer = closed.answer or self._settle(closed)
        closed = replace(closed, answer=answer)
        binding.ended(replace(closed, has_returned=had_returned), answer)
        return closed

    def _may_start(self, holding: Holding) -> bool:
        """A start that must be on record first is recorded, as if the body had a process of its own."""
        options = holding.task.options
        isolated = options.needs_process or holding.claim.is_suspect
        if not isolated and options.delivery is not Delivery.AT_MOST_ONCE:
            return True
        begun = self._app.store.run(self._app.store.begin([holding.claim.fence], isolated=isolated))
        holding.has_begun = holding.claim.fence in begun
        return holding.has_begun

    def _try_body(self, holding: Holding) -> Generator[Body, Any, tuple[Concluded, VirtualBinding]]:
        task, claim = holding.task, holding.claim
        run, binding = self._start(holding)
        try:
            args, kwargs = codec.unpack(claim.arguments)
        except DulyError as error:
            return Concluded(holding, undecodable(holding, error), cause=error), binding
        try:
            with as_current(run), context.restored(claim.context):
                binding.prepare()
                if task.is_async:
                    yield binding.aprepare()
                value: Any = task.invoke(run, args, kwargs)
                if task.is_async:
                    value = yield value
        except FAILURES as error:
            now = self._app.clock.now()
            ending: Callable[[], Ending] = partial(
                raised, task.options, claim, error, now=now, spread=NO_CHANCE
            )
            verdict = judge(holding, run.effects, ending)
            return Concluded(holding, verdict, tuple(run.effects.requests), cause=error), binding
        verdict = judge(holding, run.effects, partial(returned, task.options, value))
        return Concluded(holding, verdict, tuple(run.effects.requests), has_returned=True), binding

    def _start(self, holding: Holding) -> tuple[Run, VirtualBinding]:
        holding.started_at, holding.started = self._app.clock.now(), self._app.clock.boot()
        task = holding.task
        tell = partial(self._hear, holding)
        binding = VirtualBinding(self._counter, holding)
        run = Run(holding.claim, task.options, tell, is_perpetual=task.cycle is not None, binding=binding)
        holding.run = run
        return run, binding

    def _hear(self, holding: Holding, signal: Signal) -> None:
        """Signals take effect at once: there is nobody to batch them for."""
        store, clock = self._app.store, self._app.clock
        if not isinstance(signal, Throttle):
            store.run(store.report({holding.claim.fence: packed_progress(signal)}))
        elif signal.scope == "cluster":
            until = clock.now() + signal.wait
            store.run(store.hold(Switch(Scope.TASK, signal.task, until, signal.reason)))
        else:
            self._throttled[signal.task] = clock.boot() + signal.wait.total_seconds()

    # ending

    def _settle(self, ended: Concluded) -> Settled:
        store = self._app.store
        (answer,) = store.run(store.settle(self.name, [settlement_of(ended)]))
        self._hand.drop([ended.holding.claim.fence])
        return answer

    def _tell(self, ended: Concluded, answer: Settled) -> None:
        tell_end(self._app.events, ended, answer, self._app.clock.boot() - ended.holding.started)
        hook = hook_call(ended.holding, ended.verdict) if answer is Settled.SETTLED else None
        if hook is not None:
            _call(hook, beside=inspect.iscoroutinefunction(ended.holding.task.options.on_failure))

    def hand_back(self, holding: Holding) -> None:
        """The test itself was interrupted: nothing is counted."""
        self._settle(Concluded(holding, Release(note="the test was interrupted")))

    def state_of(self, holding: Holding) -> State | None:
        """Where the job is now."""
        job = self._app.look_up(holding.claim.id)
        return None if job is None else job.state


def _call(hook: Callable[[], None], *, beside: bool) -> None:
    """An async hook starts a loop of its own, which cannot be done inside a running one."""
    if not beside:
        hook()
        return
    thread = Thread(target=hook)
    thread.start()
    thread.join()


def _fail(error: BaseException) -> None:
    raise error
