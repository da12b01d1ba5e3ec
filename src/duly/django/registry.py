"""Django's tasks as tasks of the engine, by the path of their function.

A path is imported when it is first needed. What is found there is used only if it is a Task: a row in a
database must not get any other object called.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

from duly.app import AnyTask, App
from duly.django import child, compat
from duly.django.declaring import task_options
from duly.django.running import arun_body, run_body
from duly.errors import UnknownTask
from duly.options import read_options
from duly.run import Run
from duly.task import Task


def load(path: str) -> Any:
    """The Django task that a path names; UnknownTask if it names none."""
    try:
        found = compat.import_string(path)
    except ImportError as error:  # what a module raises by itself when imported is told as it is
        raise UnknownTask(path, ()) from error
    if not isinstance(found, compat.Task):
        raise UnknownTask(path, ())
    return found


_seen: dict[tuple[str, str], None] = {}


def see(alias: str, path: str) -> None:
    """A task that may be enqueued on a backend: its worker must know it."""
    _seen[alias, path] = None


def seen() -> list[tuple[str, str]]:
    """The backends and paths of all tasks of this process so far."""
    return list(_seen)


def is_loadable(path: str) -> bool:
    """Whether a path names a task."""
    try:
        load(path)
    except UnknownTask:
        return False
    return True


def is_findable(task: Any) -> bool:
    """Whether a worker finds this very task by its path."""
    try:
        return bool(load(task.module_path).func is task.func)
    except UnknownTask:
        return False


def known(app: App, alias: str, task: Any) -> AnyTask:
    """The engine's task for one of Django's, made at its first use."""
    name = task.module_path
    if name not in app.tasks:
        app.tasks[name] = _made(app, alias, task)
    return app.tasks[name]


def _made(app: App, alias: str, task: Any) -> AnyTask:
    body = _async_body(app, task) if iscoroutinefunction(task.func) else _body(app, task)
    body.__module__, body.__qualname__ = child.__name__, child.token(alias, task.module_path)
    options = task_options(task)
    hook = options.get("on_failure")
    if isinstance(hook, compat.Task):
        options["on_failure"] = known(app, alias, hook)
    return Task(body, read_options(body, options), app, origin=child.__name__)


def _body(app: App, task: Any) -> Callable[..., Any]:
    def body(run: Run, /, *args: Any, **kwargs: Any) -> Any:
        return run_body(app, task, run, (args, kwargs))

    return body


def _async_body(app: App, task: Any) -> Callable[..., Any]:
    async def body(run: Run, /, *args: Any, **kwargs: Any) -> Any:
        return await arun_body(app, task, run, (args, kwargs))

    return body


def is_djangos(task: AnyTask | None) -> bool:
    """Whether the engine's task stands for one of Django's."""
    return task is not None and task.function.__module__ == child.__name__


def differences(declared: Any, used: Any) -> dict[str, Any]:
    """What `using` changed: with the path, all it takes to have the same task again."""
    words = [each.name for each in dataclasses.fields(declared) if each.name != "func"]
    return {
        word: getattr(used, word) for word in words if getattr(used, word, None) != getattr(declared, word)
    }
