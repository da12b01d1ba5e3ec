"""What people may see of arguments in the admin.

A task says which of its arguments are nobody's business (`redact`); names that are secrets anywhere are
added. The arguments of a task whose code is not here are not shown: nobody could tell which are secret.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Iterable
from itertools import repeat
from typing import Any, Final, cast

from duly.app import App
from duly.django.registry import load
from duly.django.scheduling import TICK
from duly.errors import UnknownTask
from duly.job import Job
from duly.secrecy import Secrecy

STARS: Final = "***"
PLACED: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
UNKNOWN: Final = "not shown: the code of this task is not here"
ANYWHERE: Final = Secrecy()


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
    hides = _Discretion(inspect.signature(function).parameters.values(), frozenset(secret))
    stars = [
        STARS if hides.covers(name) else hides.value(value)
        for name, value in zip(hides.names_of(len(positional)), positional, strict=True)
    ]
    others = {name: STARS if hides.covers_word(name) else hides.value(value) for name, value in named.items()}
    return json.dumps([stars, others], ensure_ascii=False)


def _declared(app: App, name: str) -> tuple[Callable[..., Any], Collection[str]] | None:
    try:
        task = load(name)
    except UnknownTask:
        known = app.tasks.get(name)
        return None if known is None else (known.function, known.options.redact)
    return task.func, getattr(task, "redact", ())


class _Discretion:
    """What of one function's call is hidden, however it is passed."""

    def __init__(self, parameters: Iterable[inspect.Parameter], secret: frozenset[str]) -> None:
        ours = [one for one in parameters if one.name not in ("run", "context")]
        collectors = {one.kind: one.name for one in ours}
        self._secret = secret
        self._known = {one.name for one in ours}
        self._places = [one.name for one in ours if one.kind in PLACED]
        self._rest = collectors.get(inspect.Parameter.VAR_POSITIONAL, "")
        self._others = collectors.get(inspect.Parameter.VAR_KEYWORD, "")

    def names_of(self, count: int) -> list[str]:
        """What the function calls its first so many places; `*rest` lends its name to all that it takes."""
        return [*self._places, *repeat(self._rest, count)][:count]

    def covers(self, name: str) -> bool:
        """Whether the task or anybody calls this a secret."""
        return name in self._secret or ANYWHERE.covers(name)

    def covers_word(self, name: str) -> bool:
        """The same for an argument passed by name, which `**others` may have taken."""
        return self.covers(name) or (name not in self._known and self.covers(self._others))

    def value(self, value: Any) -> Any:
        """Without what is a secret inside it."""
        if isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            return {name: STARS if self.covers(name) else self.value(each) for name, each in named.items()}
        if isinstance(value, list):
            return [self.value(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        return value
