"""What people may see of arguments in the admin.

A task says which of its arguments are nobody's business (`redact`); names that are secrets anywhere are
added. The arguments of a task whose code is not here are not shown: nobody could tell which are secret.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection
from typing import Any, Final, cast

from duly.app import App
from duly.django.registry import load
from duly.django.scheduling import TICK
from duly.errors import UnknownTask
from duly.job import Job

STARS: Final = "***"
UNKNOWN: Final = "not shown: the code of this task is not here"
SECRETS: Final = ("password", "passwd", "secret", "token", "api_key", "apikey", "authorization", "credential")


def call_shown(app: App, job: Job) -> str:
    """The arguments of a job as JSON, without what is not to be seen."""
    if job.task == TICK:
        return wish_shown(json.loads(job.arguments)[0][0])
    found = _declared(app, job.task)
    if found is None:
        return UNKNOWN
    function, secret = found
    return shown(function, secret, json.loads(job.arguments))


def wish_shown(wish: dict[str, Any]) -> str:
    """The same for what an execution hands over."""
    try:
        task = load(str(wish.get("task")))
    except UnknownTask:
        return UNKNOWN
    call = [wish.get("args", []), wish.get("kwargs", {})]
    return shown(task.func, getattr(task, "redact", ()), call)


def shown(function: Callable[..., Any], secret: Collection[str], call: Any) -> str:
    """`[args, kwargs]` with stars in the place of secrets."""
    positional, named = call
    order = [name for name in inspect.signature(function).parameters if name not in ("run", "context")]
    stars = [
        STARS if index < len(order) and order[index] in secret else _discreet(value)
        for index, value in enumerate(positional)
    ]
    others = {name: STARS if name in secret else value for name, value in named.items()}
    return json.dumps([stars, _discreet(others)], ensure_ascii=False)


def _declared(app: App, name: str) -> tuple[Callable[..., Any], Collection[str]] | None:
    try:
        task = load(name)
    except UnknownTask:
        known = app.tasks.get(name)
        return None if known is None else (known.function, known.options.redact)
    return task.func, getattr(task, "redact", ())


def _discreet(value: Any) -> Any:
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {name: STARS if _is_secret(name) else _discreet(each) for name, each in named.items()}
    if isinstance(value, list):
        return [_discreet(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in SECRETS)
