"""One run of a Django task: its connections, its context, its signals, its value in plain JSON."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from asgiref.sync import sync_to_async

from duly import context
from duly.app import App
from duly.django.reporting import Attempt
from duly.django.transactions import let_go
from duly.run import Run

Call = tuple[tuple[Any, ...], dict[str, Any]]


def run_body(app: App, task: Any, run: Run, call: Call) -> Any:
    """Call a plain function, with connections that work before and none kept too long after."""
    let_go()
    try:
        attempt = Attempt.begin(app, task, run, call)
        with attempt.told(), _bound_again(attempt):
            return attempt.returned(task.func(*attempt.context, *call[0], **call[1]))
    finally:
        let_go()


async def arun_body(app: App, task: Any, run: Run, call: Call) -> Any:
    """Await a coroutine function. Django keeps connections for async code in a thread of its own."""
    close = sync_to_async(let_go)
    await close()
    try:
        attempt = await sync_to_async(Attempt.begin)(app, task, run, call)
        with attempt.told(), _bound_again(attempt):
            return attempt.returned(await task.func(*attempt.context, *call[0], **call[1]))
    finally:
        await close()


@contextmanager
def _bound_again(attempt: Attempt) -> Generator[None]:
    """What the caller bound, without our own note: requests made inside must not carry it on."""
    with context.unbound(), context.restored(attempt.bound):
        yield
