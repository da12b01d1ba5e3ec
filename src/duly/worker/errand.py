"""The part of a run that happens in a child process: find the task, run its body, say what it means.

The child decides the verdict, because exceptions cannot travel: only values do, packed like arguments.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from types import ModuleType
from typing import Any, cast

from duly import codec, context, failpoints
from duly.app import AnyTask, App
from duly.clock import SystemClock
from duly.errors import DulyError, LeaseLost, UnknownTask
from duly.executors.limits import run_async
from duly.ids import spread
from duly.job import Claim, Request
from duly.lifecycle import Verdict
from duly.run import UNDECODABLE, Run, Signal, as_current, decide, failed, raised, returned
from duly.task import Task

ENTRY = "duly.worker.errand:perform"


@dataclass(frozen=True, slots=True)
class Order:
    """What a child is told."""

    modules: tuple[str, ...]
    """Where to look: the function's own module, and the one that made a task of it."""
    qualname: str
    task: str
    claim: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What a child answers."""

    verdict: Verdict
    then: tuple[Request, ...]
    started_at: datetime


def order_for(task: AnyTask, claim: Claim) -> bytes:
    """Only names and values: the child has its own copy of the code."""
    order = Order(modules_of(task), task.function.__qualname__, task.name, tuple(claim))
    return codec.pack_value(order, cap=sys.maxsize).encode()


def modules_of(task: AnyTask) -> tuple[str, ...]:
    """What a child must import to find this task."""
    return tuple(dict.fromkeys((task.function.__module__, task.origin)))


def can_travel(task: AnyTask) -> bool:
    """Whether a child could find this task by importing its module."""
    return "<locals>" not in task.function.__qualname__ and not task.is_homebound


def perform(message: bytes, emit: Callable[[bytes], None]) -> bytes:
    """Run one claim in this process and pack what it means. Called by the child's main loop."""
    order: Order = codec.unpack_value(message.decode())
    claim = Claim(*order.claim)
    task = find_task(order)
    _keep_memory_apart(task)
    run = Run(
        claim,
        task.options,
        tell=lambda signal: emit(pack_signal(signal)),
        is_perpetual=task.cycle is not None,
    )
    started_at = SystemClock().now()
    verdict = _conduct(task, claim, run)
    return codec.pack_value(
        Report(verdict, tuple(run.effects.requests), started_at), cap=sys.maxsize
    ).encode()


def _conduct(task: AnyTask, claim: Claim, run: Run) -> Verdict:
    try:
        args, kwargs = codec.unpack(claim.arguments)
    except DulyError as error:
        return failed(task.options, task.cycle, claim, str(error), UNDECODABLE)
    try:
        with as_current(run), context.restored(claim.context):
            failpoints.reached("before_body", claim.task)
            value = task.invoke(run, args, kwargs)
            if task.is_async:
                value = run_async(value)
            failpoints.reached("after_body", claim.task)
        ending = returned(task.options, value)
    except LeaseLost:
        raise
    except BaseException as error:  # SystemExit and the soft limit are the body's failures, not the child's
        ending = raised(task.options, claim, error, now=SystemClock().now(), spread=spread())
    return decide(task.options, task.cycle, claim, ending, run.effects)


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
