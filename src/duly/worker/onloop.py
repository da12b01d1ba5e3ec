"""Bodies on the event loop: each with a context of its own and, once it waits, with a task of its own.

The loop is called once for a whole burst of starts, and looks for the next starts once for a whole burst of
ends: a call from another thread is a system call, and each would cost more than a short body does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from contextvars import Context
from functools import partial
from types import coroutine
from typing import Any

from duly import codec, failpoints
from duly.clock import Clock
from duly.errors import DulyError, LeaseLost
from duly.executors.limits import Interruptible, limited
from duly.job import Delivery
from duly.lifecycle import Release
from duly.run import Run, as_current, current_run, is_unaccompanied
from duly.worker.binding import Binding
from duly.worker.closing import undisturbed
from duly.worker.endings import Concluded, halted, raised_with, returned_with, undecodable
from duly.worker.hand import Halt, Holding
from duly.worker.shift import resumed, traces
from duly.worker.transaction import Counter


class LoopBodies:
    """Starts bodies on one loop, from any thread, and says how they ended."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        counter: Counter,
        *,
        conclude: Callable[[Concluded], None],
        advance: Callable[[], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._counter = counter
        self._clock: Clock = counter.clock
        self._conclude = conclude
        """Takes an end; the slot is free from then on."""
        self._advance = advance
        """Starts what waits for the slots that were freed, and tells whoever collects ends."""
        self._fail = fail
        self._waiting: deque[Holding] = deque()
        self._is_called = False
        self._own = Context()
        self._kept = 0
        """Tasks that bodies kept of the last that were made: it will be about as many the next time."""
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, holding: Holding) -> None:
        """In the next round of the loop."""
        self._waiting.append(holding)
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon_threadsafe(self._serve, context=self._own)

    def _serve(self) -> None:
        """Whatever starts meanwhile needs no call: it is taken along."""
        try:
            self._advance()
        except Exception as error:  # the loop would log it, and a claim stay in hand for ever
            self._fail(error)
        self._is_called = False
        if self._waiting:
            self._is_called = True  # once more after them: all may be kept, or cancelled before they begin
            kept, self._kept = self._kept, 0
            try:
                for _ in range(min(len(self._waiting), 2 * kept + 1)):
                    self._loop.create_task(self._shift(), context=Context())
            except Exception as error:  # somebody's task factory that takes no context, for one
                self._fail(error)
            else:
                self._loop.call_soon(self._serve, context=self._own)

    async def _shift(self) -> None:
        """Body after body, until one keeps the task."""
        task = asyncio.current_task()
        assert task is not None
        try:
            untouched, is_kept = traces(task), False
            for _ in range(len(self._waiting)):  # not what comes meanwhile: others want the loop too
                if is_kept or not self._waiting:
                    return
                holding = self._waiting.popleft()
                options = holding.task.options
                if options.soft_limit is None and options.delivery is not Delivery.EXACTLY_ONCE:
                    is_kept = await self._conduct(holding, task) or traces(task) != untouched
                else:
                    self._set_apart(holding)
        except Exception as error:  # none of a body: these have become ends
            self._fail(error)

    def _set_apart(self, holding: Holding) -> None:
        """On a task of its own from the start, where no order must reach it before it says so."""
        task = self._loop.create_task(self._conduct_carefully(holding), context=Context())
        self._tasks.add(task)  # the loop itself would not keep it alive
        task.add_done_callback(self._tasks.discard)

    def strike(self, holding: Holding) -> None:
        """Cancel a body that waits, from any thread; one that does not has ended before this is heard."""
        if not self._loop.is_closed():
            self._call(partial(_cancel, holding))

    def _ended(self, ended: Concluded) -> None:
        """Called in the loop; the next round begins as many as have ended in this one."""
        ended.holding.body = None  # let go of here, not where the store waits for whoever settles it
        self._conclude(ended)
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._serve, context=self._own)

    @coroutine
    def _conduct(self, holding: Holding, task: asyncio.Task[None]) -> Generator[Any, Any, bool]:
        """Where nothing can interrupt the body but a cancel, and it ends in no transaction of ours.

        True if it had to wait: the task is its own then.
        """
        claim, has_waited = holding.claim, False
        try:
            args, kwargs = codec.unpack(claim.arguments)
        except DulyError as error:
            self._ended(Concluded(holding, undecodable(holding, error)))
            return has_waited
        run = seat(holding)
        try:
            check_wanted(holding)
            is_alone = is_unaccompanied(claim) and failpoints.armed is None
            # A context of its own: the body before it must not lend this one its variables.
            body, enter = (_alone if is_alone else _accompanied)(holding, run, args, kwargs), Context().run
            try:
                awaited = enter(body.send, None)
            except StopIteration as stop:  # most short ones never wait
                value: Any = stop.value
            else:
                has_waited = True
                holding.body = task
                self._kept += 1
                rest = resumed(body, enter, awaited)
                del awaited  # the rest lets go of it when the body goes on
                value = yield from rest
            run.end()
        except BaseException as error:
            run.end()
            self._failed(holding, run, error)
            if isinstance(error, GeneratorExit) and not self._loop.is_running():
                raise  # the loop is being closed, and so are we
        else:
            ended = returned_with(holding, run, value)
            self._ended(ended if run.bound is None else closed(run, ended))
        return has_waited

    def _failed(self, holding: Holding, run: Run, error: BaseException) -> None:
        if self._is_taken_down(error):
            self._taken_down(holding, run, error)
        else:
            self._ended(closed(run, self._raised(holding, run, error)))

    async def _conduct_carefully(self, holding: Holding) -> None:
        """With a limit, or with a transaction of its own."""
        claim = holding.claim
        try:
            args, kwargs = codec.unpack(claim.arguments)
        except DulyError as error:
            self._ended(Concluded(holding, undecodable(holding, error)))
            return
        run = seat(holding)
        binding = bound_to(run)
        try:
            check_wanted(holding)
            await binding.aprepare()
            with as_current(run):
                failpoints.reached("before_body", claim.task)
                value: Any = await self._await_body(holding, holding.task.invoke(run, args, kwargs))
                failpoints.reached("after_body", claim.task)
        except BaseException as error:
            if self._is_taken_down(error):
                binding.drop()
                self._taken_down(holding, run, error)
            else:
                self._ended(await self._close(binding, self._raised(holding, run, error)))
            if isinstance(error, GeneratorExit) and not self._loop.is_running():
                raise
        else:
            self._ended(await self._close(binding, returned_with(holding, run, value)))

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

    async def _await_body(self, holding: Holding, coroutine: Any) -> Any:
        """A plain await where nothing can interrupt but a cancel; the careful one where a limit may."""
        limit = holding.task.options.soft_limit
        if limit is None:
            task = asyncio.current_task()
            assert task is not None
            holding.stop_by(partial(self._call, task.cancel))
            return await coroutine
        body = Interruptible(coroutine)
        holding.stop_by(partial(self._call, partial(body.interrupt, LeaseLost())))
        return await limited(body, limit)

    def _call(self, act: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(act)

    def _raised(self, holding: Holding, run: Run, error: BaseException) -> Concluded:
        if holding.halt is not None and isinstance(error, asyncio.CancelledError | LeaseLost):
            return halted(holding, run, error, str(holding.halt))
        return raised_with(holding, run, error, self._clock.now())

    def _is_taken_down(self, error: BaseException) -> bool:
        """Ended from outside: the loop goes down, or somebody cancelled everything on it."""
        if not self._loop.is_running():
            return True
        task = asyncio.current_task()
        return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0

    def _taken_down(self, holding: Holding, run: Run, error: BaseException) -> None:
        """The loop may have no further round: what is to be told is told at once."""
        self._conclude(halted(holding, run, error, str(holding.halt or "its event loop went down")))
        self._advance()


def _cancel(holding: Holding) -> None:
    body = holding.body  # once: another thread may let go of it
    if body is not None:
        body.cancel()


async def _alone(holding: Holding, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Its body, with nothing bound but its run, and for good: the context ends with it."""
    current_run.set(run)
    return await holding.task.invoke(run, args, kwargs)


async def _accompanied(holding: Holding, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Its body, under what its request was made under."""
    with as_current(run):
        failpoints.reached("before_body", holding.claim.task)
        value = await holding.task.invoke(run, args, kwargs)
        failpoints.reached("after_body", holding.claim.task)
        return value


def seat(holding: Holding) -> Run:
    """The run a claim becomes."""
    task = holding.task
    run = holding.run = Run(
        holding.claim,
        task.options,
        holding.tell,
        is_perpetual=task.cycle is not None,
        binding=holding.bind,
    )
    if holding.halt is not None:
        holding.order(holding.halt)  # it came while nobody could be told
    return run


def check_wanted(holding: Holding) -> None:
    """At the door of the body: an order that came while another one was in the way keeps it out.

    So does a lease that ran out in a freeze just now: whoever watches it may wake later than we do.
    """
    host = holding.host
    if holding.halt is None and (host is None or host.trusts_lease()):
        return
    holding.halt = holding.halt or Halt.LOST
    holding.started_at = None
    raise LeaseLost


def bound_to(run: Run) -> Binding:
    """What ties a run of a worker to a transaction."""
    binding = run.binding
    assert isinstance(binding, Binding)
    return binding


def closed(run: Run, ended: Concluded) -> Concluded:
    """A body may have completed its run itself; else nothing is tied to it."""
    return ended if run.bound is None else bound_to(run).close(ended)
