"""A shift: one task of the event loop, on which body after body runs until one of them has to wait.

A task costs more than a short body does. Which one it ran on is nothing to a body that never waits; one
that waits keeps its task, as if nobody had been there before. So does one that left a trace on it: whoever
remembers a task may cancel it, and must not strike the next body instead.
"""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import Callable, Coroutine, Generator
from operator import attrgetter
from typing import Any, Final

_unheard: Final = attrgetter("_must_cancel", "_callbacks")
"""A cancel that strikes at the next wait, also one that was taken back too late, and whoever is to be called
at the end of the task. Nothing public tells of them."""


def traces(task: asyncio.Task[Any]) -> tuple[object, ...]:
    """What a body may leave on its task: somebody who remembers it, a name, a callback, a cancel to come.

    Not an attribute: a task of asyncio's takes them, and tells nobody which it has.
    """
    return (
        sys.getrefcount(task),
        weakref.getweakrefcount(task),
        task.get_name(),
        _unheard(task),
    )


def resumed(
    body: Coroutine[Any, Any, Any], enter: Callable[..., Any], awaited: Any
) -> Generator[Any, Any, Any]:
    """The rest of a body, from the first thing it waits for: in its own context, on the task it keeps."""
    failure: BaseException | None = None
    try:
        while True:
            sent = None
            try:
                sent = yield awaited
            except BaseException as error:
                # Thrown in below: what it raises then was not caused by this. We are no part of its story.
                trace = error.__traceback__
                failure = error.with_traceback(trace and trace.tb_next)
                del trace
            awaited = None  # it may be large, and the body long
            if failure is None:
                awaited = enter(body.send, sent)
            else:
                awaited, failure = enter(body.throw, failure), None
    except StopIteration as stop:
        return stop.value
    finally:
        failure = None  # else it would hold itself by way of its traceback, until gc
