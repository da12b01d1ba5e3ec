"""The part of a run that happens in a child process: find the task, run its body, say what it means.

The child decides the verdict, because exceptions cannot travel: only values do, packed like arguments.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from types import ModuleType
from typing import Any, cast

from duly import codec, context, failpoints, tracing
from duly.app import AnyTask, App
from duly.clock import SystemClock
from duly.errors import DulyError, LeaseLost, SoftLimitExceeded, UnknownTask
from duly.executors.interrupts import INTERRUPTS
from duly.executors.limits import run_async
from duly.ids import spread
from duly.job import Claim, Delivery, Request
from duly.lifecycle import Settled, Verdict
from duly.run import UNDECODABLE, Run, as_current, decide, failed, raised, returned
from duly.signals import Signal
from duly.task import Task
from duly.transactions import module_for
from duly.worker.binding import Binding
from duly.worker.closing import undisturbed
from duly.worker.endings import Concluded
from duly.worker.hand import Holding
from duly.worker.shields import ChildShield
from duly.worker.transaction import Counter

ENTRY = "duly.worker.errand:perform"
LAST_SPANS = 0.25
"""Seconds a run's end may wait for its spans to be sent."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a child is told."""

    modules: tuple[str, ...]
    """Where to look: the function's own module, and the one that made a task of it."""
    qualname: str
    task: str
    claim: tuple[Any, ...]
    worker: str
    """Whose claim it is."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a child answers."""

    verdict: Verdict
    then: tuple[Request, ...]
    started_at: datetime
    answer: Settled | None = None
    """The store's, where the child has settled by itself."""
    meant: Verdict | None = None
    """Settled, but nobody knows whether it was committed."""


def order_for(task: AnyTask, claim: Claim, worker: str) -> bytes:
    """Only names and values: the child has its own copy of the code."""
    order = Order(modules_of(task), task.function.__qualname__, task.name, tuple(claim), worker)
    return codec.pack_value(order, cap=sys.maxsize).encode()


def modules_of(task: AnyTask) -> tuple[str, ...]:
    """What a child must import to find this task."""
    return tuple(dict.fromkeys((task.function.__module__, task.origin)))


def imports_of(task: AnyTask) -> tuple[str, ...]:
    """What a child imports before the body's clock starts."""
    needed = ("duly.worker.errand", *modules_of(task))
    if task.options.delivery is not Delivery.EXACTLY_ONCE:
        return needed
    return (*needed, module_for(cast(App, task.desk).store.url))


def can_travel(task: AnyTask) -> bool:
    """Whether a child could find this task by importing its module."""
    return "<locals>" not in task.function.__qualname__ and not task.is_homebound


def perform(message: bytes, emit: Callable[[bytes], None]) -> bytes:
    """Run one claim in this process and pack what it means. Called by the child's main loop."""
    order: Order = codec.unpack_value(message.decode())
    claim = Claim(*order.claim)
    task = find_task(order)
    _keep_memory_apart(task)
    holding = Holding(claim, task, started_at=SystemClock().now())
    binding = Binding(counter_of(task, order.worker), holding, ChildShield())
    run = holding.run = Run(
        claim,
        task.options,
        tell=lambda signal: emit(pack_signal(signal)),
        is_perpetual=task.cycle is not None,
        binding=binding,
    )
    ended = _ended(holding, run, binding)
    _send_spans()
    report = Report(ended.verdict, ended.then, cast(datetime, holding.started_at), ended.answer, ended.meant)
    return codec.pack_value(report, cap=sys.maxsize).encode()


def _send_spans() -> None:
    """An interrupt that comes now comes too late to change the run's end."""
    with suppress(SoftLimitExceeded, LeaseLost), INTERRUPTS.shield():
        tracing.flush(LAST_SPANS)


def _ended(holding: Holding, run: Run, binding: Binding) -> Concluded:
    """The body, and its end: in the transaction it ran in, if it had one."""
    task, claim = holding.task, holding.claim
    try:
        args, kwargs = codec.unpack(claim.arguments)
    except DulyError as error:
        return Concluded(holding, failed(task.options, task.cycle, claim, str(error), UNDECODABLE))
    if task.is_async:
        return run_async(_conducted(holding, run, binding, args, kwargs))
    try:
        ended = _returned(holding, run, _called(holding, run, binding, args, kwargs))
    except LeaseLost:
        INTERRUPTS.shielded(binding.discard)
        raise
    except BaseException as error:  # SystemExit and the soft limit are the body's failures, not the child's
        ended = _raised(holding, run, error)
    return _closed(binding, ended)


def _closed(binding: Binding, ended: Concluded) -> Concluded:
    """No interrupt tears a commit apart; one that comes after it changes nothing."""
    closed: Concluded | None = None
    try:
        with INTERRUPTS.shield():
            closed = binding.close(ended)
    except (SoftLimitExceeded, LeaseLost):
        if closed is None:
            raise
    return closed


async def _conducted(
    holding: Holding, run: Run, binding: Binding, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Concluded:
    try:
        with as_current(run), context.restored(holding.claim.context):
            failpoints.reached("before_body", holding.claim.task)
            await binding.aprepare()
            value = await holding.task.invoke(run, args, kwargs)
            failpoints.reached("after_body", holding.claim.task)
        ended = _returned(holding, run, value)
    except LeaseLost:
        await undisturbed(binding.adiscard())
        raise
    except BaseException as error:
        ended = _raised(holding, run, error)
    with INTERRUPTS.shield():
        return await undisturbed(binding.aclose(ended))


def _returned(holding: Holding, run: Run, value: Any) -> Concluded:
    task, claim = holding.task, holding.claim
    verdict = decide(task.options, task.cycle, claim, returned(task.options, value), run.effects)
    return Concluded(holding, verdict, tuple(run.effects.requests), has_returned=True)


def _raised(holding: Holding, run: Run, error: BaseException) -> Concluded:
    task, claim = holding.task, holding.claim
    ending = raised(task.options, claim, error, now=SystemClock().now(), spread=spread())
    verdict = decide(task.options, task.cycle, claim, ending, run.effects)
    return Concluded(holding, verdict, tuple(run.effects.requests), cause=error)


_counters: dict[tuple[App, str], Counter] = {}


def counter_of(task: AnyTask, worker: str) -> Counter:
    """This process's own connections, kept from one errand to the next."""
    app = cast(App, task.desk)
    if (app, worker) not in _counters:
        _counters[app, worker] = Counter(app, worker)
    return _counters[app, worker]


def _called(
    holding: Holding, run: Run, binding: Binding, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    with as_current(run), context.restored(holding.claim.context):
        failpoints.reached("before_body", holding.claim.task)
        binding.prepare()
        value = holding.task.invoke(run, args, kwargs)
        failpoints.reached("after_body", holding.claim.task)
        return value


def find_task(order: Order) -> AnyTask:
    """By the name it has in its module, else in any application defined there."""
    for name in order.modules:
        found = _find_in(importlib.import_module(name), order)
        if found is not None:
            return found
    raise UnknownTask(order.task, ())


def _find_in(module: ModuleType, order: Order) -> AnyTask | None:
    found: Any = module
    for part in order.qualname.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Task) and found.name == order.task:
        return cast(AnyTask, found)
    apps = [value for value in vars(module).values() if isinstance(value, App)]
    return next((app.tasks[order.task] for app in apps if order.task in app.tasks), None)


def _keep_memory_apart(task: AnyTask) -> None:
    """A memory store in this process would not be the worker's: better no answer than a wrong one."""
    if isinstance(task.desk, App) and task.desk.settings.url.startswith("memory:"):
        task.desk.refuse_store(
            "memory:// lives in the worker's own process, and this task runs in a child process. "
            "Use sqlite:/// to enqueue from tasks with a hard limit."
        )


def pack_signal(signal: Signal) -> bytes:
    """Progress or a throttle, on its way to the worker."""
    return codec.pack_value(signal).encode()


def unpack_signal(message: bytes) -> Signal:
    """Back in the worker."""
    signal: Signal = codec.unpack_value(message.decode())
    return signal


def unpack_report(message: bytes) -> Report:
    """The child's answer."""
    report: Report = codec.unpack_value(message.decode())
    return report
