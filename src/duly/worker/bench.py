"""Where bodies run: on the loop, in a thread, or alone in a child process.

The bench has a fixed number of slots and a small buffer of claims that have not started. Whoever frees
a slot starts the next claim at once, without asking the store.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import Context
from datetime import timedelta
from functools import partial
from typing import Any, cast

from duly import codec, context, failpoints
from duly.errors import DulyError, LeaseLost
from duly.executors.children import Stopped
from duly.executors.limits import Interruptible, limited
from duly.executors.threads import Threads
from duly.ids import spread
from duly.lifecycle import Release
from duly.run import Run, Signal, as_current, raised, returned
from duly.worker.binding import Binding
from duly.worker.closing import undisturbed
from duly.worker.endings import Concluded, handed_back, judge, undecodable
from duly.worker.hand import Holding
from duly.worker.isolation import Isolation, needs_record, runs_in_child
from duly.worker.transaction import Counter

log = logging.getLogger("duly.worker")

HOOKS = 4
"""Threads for on_failure functions: a slow one must not take a slot from the work."""


class Bench:
    """Slots, the buffer in front of them, and three ways to run a body."""

    def __init__(
        self,
        *,
        slots: int,
        loop: asyncio.AbstractEventLoop,
        trusts_lease: Callable[[], bool],
        wake: Callable[[], None],
        tell: Callable[[Holding, Signal], None],
        fail: Callable[[BaseException], None],
        counter: Counter,
        stop_grace: timedelta = timedelta(seconds=1),
    ) -> None:
        self.slots = slots
        self._counter = counter
        self._loop = loop
        self._clock = counter.clock
        self._trusts_lease = trusts_lease
        self._wake = wake
        self._tell = tell
        self._fail = fail
        self._lock = threading.Lock()
        self._buffer: deque[Holding] = deque()
        self._running = 0
        self._aside = 0
        self._to_begin: list[Holding] = []
        self._for_loop: deque[Holding] = deque()
        self._is_loop_called = False
        self._concluded: deque[Concluded] = deque()
        self._threads = Threads(slots)
        self._hooks = Threads(HOOKS)
        self._isolation = Isolation(
            slots=slots,
            clock=counter.clock,
            worker=counter.worker,
            stop_grace=stop_grace,
            tell=tell,
            conclude=self._conclude,
            fail=fail,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False

    # what the pump does

    @property
    def free(self) -> int:
        """Slots that would start a claim at once."""
        return max(0, self.slots - self._running - len(self._buffer))

    @property
    def buffered(self) -> int:
        """Claims that have not started."""
        return len(self._buffer)

    @property
    def is_empty(self) -> bool:
        """Nothing runs, waits to run, or has ended without being collected."""
        return not (self._running or self._aside or self._buffer or self._to_begin or self._concluded)

    @property
    def has_news(self) -> bool:
        """Something for the pump to fetch."""
        return bool(self._concluded or self._to_begin)

    def offer(self, holdings: list[Holding]) -> None:
        """Claims that were just lent: start what fits, keep the rest in the buffer."""
        with self._lock:
            self._buffer.extend(holdings)
        self._advance()

    def collect(self) -> list[Concluded]:
        """The runs that ended since the last look."""
        ended: list[Concluded] = []
        while self._concluded:
            ended.append(self._concluded.popleft())
        return ended

    def take_to_begin(self) -> list[Holding]:
        """Runs whose start must be recorded before it happens."""
        with self._lock:
            waiting, self._to_begin = self._to_begin, []
        return waiting

    def begin_later(self, holdings: list[Holding]) -> None:
        """The store did not answer: their starts are recorded when it does."""
        with self._lock:
            self._to_begin.extend(holdings)

    def begin(self, holding: Holding, *, is_recorded: bool) -> None:
        """Start a run whose start is on record; one that could not be recorded is handed back."""
        holding.has_begun = is_recorded
        if is_recorded:
            self._start(holding)
        else:
            note = "superseded or cancelled before it started"
            self._conclude(Concluded(holding, Release(note=note)))

    def return_all_unstarted(self, note: str) -> None:
        """Hand the buffer back: the worker is stopping."""
        with self._lock:
            unstarted = [*self._buffer, *self._to_begin]
            self._running -= len(self._to_begin)
            self._buffer.clear()
            self._to_begin = []
        self._concluded.extend(Concluded(holding, Release(note=note)) for holding in unstarted)
        self._wake()

    def return_unstarted(self, is_chosen: Callable[[Holding], bool], note: str) -> None:
        """Hand back those that have not started, of those that are chosen."""
        with self._lock:
            chosen = [holding for holding in self._buffer if is_chosen(holding)]
            self._buffer = deque(holding for holding in self._buffer if not is_chosen(holding))
        self._concluded.extend(Concluded(holding, Release(note=note)) for holding in chosen)
        self._wake()

    def call_aside(self, act: Callable[[], None]) -> None:
        """Run something of the user's that is no body, where it can block nobody."""
        with self._lock:
            self._aside += 1
        self._hooks.submit(act, lambda _value, _failure: self._back_from_aside())

    def _back_from_aside(self) -> None:
        with self._lock:
            self._aside -= 1
        self._wake()

    def close(self, grace: timedelta) -> None:
        """End what can be ended. Bodies stuck in threads stay behind and die with the process."""
        self._is_closing = True
        self._isolation.close(grace)
        stuck = [*self._threads.close(grace=grace), *self._hooks.close(grace=grace)]
        for token in stuck:
            log.warning("a body is stuck in a thread and was left behind: %s", token.body)
        self._counter.close()

    # starting

    def _advance(self) -> None:
        while True:
            with self._lock:
                if not self._buffer or self._running >= self.slots:
                    return
                holding = self._buffer.popleft()
                self._running += 1
            if not self._may_start(holding):
                self._end(Concluded(holding, Release(note="its lease was lost before it started")))
            elif needs_record(holding):
                with self._lock:
                    self._to_begin.append(holding)
                self._wake()
            else:
                self._start(holding)

    def _may_start(self, holding: Holding) -> bool:
        """A claim that waited through a freeze may be somebody else's by now."""
        return holding.halt is None and self._trusts_lease()

    def _start(self, holding: Holding) -> None:
        holding.started_at = self._clock.now()
        holding.started = time.monotonic()
        if runs_in_child(holding):
            self._isolation.start(holding, self._run_of(holding)[0])
        elif holding.task.is_async:
            self._for_loop.append(holding)
            self._call_loop()
        else:
            self._start_thread(holding)

    # on the loop

    def _call_loop(self) -> None:
        """One call per burst of starts, not one per start."""
        if not self._is_loop_called:
            self._is_loop_called = True
            self._loop.call_soon_threadsafe(self._start_on_loop, context=Context())

    def _start_on_loop(self) -> None:
        self._is_loop_called = False
        while self._for_loop:
            # A context of its own: the body that freed the slot must not lend this one its variables.
            task = self._loop.create_task(self._conduct(self._for_loop.popleft()), context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _conduct(self, holding: Holding) -> None:
        run, binding = self._run_of(holding)
        try:
            args, kwargs = codec.unpack(holding.claim.arguments)
        except DulyError as error:
            self._conclude(Concluded(holding, undecodable(holding, error)))
            return
        try:
            await binding.aprepare()
            with as_current(run), context.restored(holding.claim.context):
                failpoints.reached("before_body", holding.claim.task)
                value = await self._await_body(holding, holding.task.invoke(run, args, kwargs))
                failpoints.reached("after_body", holding.claim.task)
        except BaseException as error:
            is_taken_down = self._is_taken_down(error)
            ended = self._raised(holding, run, error, is_taken_down=is_taken_down)
            if is_taken_down:
                binding.drop()
                self._conclude(ended)
            else:
                self._conclude(await self._close(binding, ended))
            if isinstance(error, GeneratorExit) and not self._loop.is_running():
                raise  # the loop is being closed, and so are we
        else:
            self._conclude(await self._close(binding, self._returned(holding, run, value)))

    async def _close(self, binding: Binding, ended: Concluded) -> Concluded:
        """To the end, whoever wants this task to stop meanwhile: half a commit is none of the choices."""
        if not binding.is_awaited:
            return binding.close(ended)
        ended.holding.stop_by(lambda: None)
        try:
            return await undisturbed(binding.aclose(ended))
        except asyncio.CancelledError:
            note = Release(note="its event loop went down")
            return Concluded(ended.holding, note, meant=ended.verdict if ended.has_returned else None)

    def _is_taken_down(self, error: BaseException) -> bool:
        """Ended from outside: the loop goes down, or somebody cancelled everything on it."""
        if not self._loop.is_running():
            return True
        task = asyncio.current_task()
        return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0

    async def _await_body(self, holding: Holding, coroutine: Any) -> Any:
        """A plain await where nothing can interrupt but a cancel; the careful one where a limit may."""
        limit = holding.task.options.soft_limit
        if limit is None:
            task = asyncio.current_task()
            assert task is not None
            holding.stop_by(partial(self._call_in_loop, task.cancel))
            return await coroutine
        body = Interruptible(coroutine)
        holding.stop_by(partial(self._call_in_loop, partial(body.interrupt, LeaseLost())))
        return await limited(body, limit)

    def _call_in_loop(self, act: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(act)

    # in a thread

    def _start_thread(self, holding: Holding) -> None:
        run, binding = self._run_of(holding)
        scope = Context()
        token = self._threads.submit(
            lambda: scope.run(self._call_body, holding, run, binding),
            lambda value, failure: self._thread_ended(binding, holding, run, value, failure),
            soft_limit=holding.task.options.soft_limit,
        )
        holding.force = lambda: self._threads.interrupt(token, LeaseLost)

    def _call_body(self, holding: Holding, run: Run, binding: Binding) -> Any:
        try:
            args, kwargs = codec.unpack(holding.claim.arguments)
        except DulyError as error:
            raise BadArguments from error
        binding.prepare()
        with as_current(run), context.restored(holding.claim.context):
            failpoints.reached("before_body", holding.claim.task)
            value = holding.task.invoke(run, args, kwargs)
            failpoints.reached("after_body", holding.claim.task)
            return value

    def _thread_ended(
        self, binding: Binding, holding: Holding, run: Run, value: Any, failure: BaseException | None
    ) -> None:
        """Still in its thread, but no interrupt reaches it any more: a commit is not torn apart."""
        if isinstance(failure, Stopped):
            note = "the worker stopped before it started"
            self._conclude(Concluded(holding, handed_back(holding, note)))
        elif isinstance(failure, BadArguments):
            error = cast(DulyError, failure.__cause__)
            self._conclude(Concluded(holding, undecodable(holding, error)))
        elif failure is not None:
            self._conclude(binding.close(self._raised(holding, run, failure)))
        else:
            self._conclude(binding.close(self._returned(holding, run, value)))

    # ending

    def _run_of(self, holding: Holding) -> tuple[Run, Binding]:
        task, tell, binding = holding.task, partial(self._tell, holding), Binding(self._counter, holding)
        run = Run(holding.claim, task.options, tell, is_perpetual=task.cycle is not None, binding=binding)
        holding.run = run
        run.cancelled = holding.halt is not None
        return run, binding

    def _returned(self, holding: Holding, run: Run, value: Any) -> Concluded:
        verdict = judge(holding, run.effects, lambda: returned(holding.task.options, value))
        return Concluded(holding, verdict, tuple(run.effects.requests), has_returned=True)

    def _raised(
        self, holding: Holding, run: Run, error: BaseException, *, is_taken_down: bool = False
    ) -> Concluded:
        is_halted = holding.halt is not None and isinstance(error, asyncio.CancelledError | LeaseLost)
        then = tuple(run.effects.requests)
        if is_halted or is_taken_down:
            note = str(holding.halt or "its event loop went down")
            return Concluded(holding, handed_back(holding, note), then, cause=error)
        options, now = holding.task.options, self._clock.now()
        verdict = judge(
            holding,
            run.effects,
            lambda: raised(options, holding.claim, error, now=now, spread=spread()),
        )
        return Concluded(holding, verdict, then, cause=error)

    def _conclude(self, ended: Concluded) -> None:
        self._end(ended)
        if not self._is_closing:
            self._advance()

    def _end(self, ended: Concluded) -> None:
        self._concluded.append(ended)
        with self._lock:
            self._running -= 1
        self._wake()


class BadArguments(Exception):
    """The stored arguments could not be rebuilt; the cause says why."""
