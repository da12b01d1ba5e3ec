"""What people may see of a job's arguments, result, context and errors.

A task says which of its own arguments are nobody's business (`redact=`); the dashboard adds names that are
secrets wherever they turn up. The arguments of a task whose code is not here are not shown at all: nobody
could tell which of them are secret. What is hidden of a call is hidden in its errors too, which quote.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from duly.cli.documents import HIDDEN, call_of, call_text, parsed
from duly.cli.words import clipped

if TYPE_CHECKING:
    from duly.app import App
    from duly.job import Job

SECRETS: Final = ("password", "passwd", "secret", "token", "api_key", "apikey", "authorization", "credential")
DEEPEST: Final = 30
SHORTEST: Final = 4
"""Characters: hiding every `1` of an error would hide the error."""


class Redaction:
    """Hides what must not be seen."""

    def __init__(self, app: App, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in (*SECRETS, *names))

    def knows(self, task: str) -> bool:
        """Whether the task's own list is here to go by."""
        return task in self._app.tasks

    def call(self, job: Job) -> Any:
        """`[args, kwargs]` without secrets; stars where even that cannot be told."""
        task = self._app.tasks.get(job.task)
        return HIDDEN if task is None else self.value(call_of(job, task))

    def call_text(self, job: Job, width: int = 160) -> str:
        """The call on one line."""
        call = self.call(job)
        return HIDDEN if call == HIDDEN else clipped(call_text("", call)[1:-1], width)

    def job(self, job: Job) -> Job:
        """The same job with stars where its errors quote what is hidden of its call."""
        if job.error is None and not any(line.note for line in job.history):
            return job
        hidden = sorted(set(_hidden(parsed(job.arguments), self.call(job))), key=len, reverse=True)
        history = tuple(replace(line, note=_without(line.note, hidden)) for line in job.history)
        return replace(job, error=job.error and _without(job.error, hidden), history=history)

    def text(self, stored: str | None) -> Any:
        """A stored JSON text without secrets."""
        return self.value(parsed(stored))

    def value(self, value: Any, depth: int = 0) -> Any:
        """The same value with stars under every name that is a secret."""
        if depth > DEEPEST:
            return HIDDEN
        if isinstance(value, dict):
            named = cast(dict[str, Any], value)
            return {
                name: HIDDEN if self._is_secret(name) else self.value(each, depth + 1)
                for name, each in named.items()
            }
        if isinstance(value, list):
            values = cast(Iterable[Any], value)
            return [self.value(each, depth + 1) for each in values]
        return value

    def _is_secret(self, name: str) -> bool:
        return any(secret in name.lower() for secret in self._names)


def _hidden(raw: Any, shown: Any) -> Iterator[str]:
    """The texts of a call that are not among what is shown of it."""
    if isinstance(raw, dict | list):
        beside = dict(_members(shown))
        for place, each in _members(raw):
            yield from _hidden(each, beside.get(place, HIDDEN))
    elif shown == HIDDEN and not isinstance(raw, bool | None) and len(str(raw)) >= SHORTEST:
        yield str(raw)


def _members(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(cast(dict[str, Any], value).items())
    if not isinstance(value, list):
        return []
    values: Iterable[Any] = cast(Iterable[Any], value)
    return list(enumerate(values))


def _without(text: str, hidden: Sequence[str]) -> str:
    for one in hidden:
        text = text.replace(one, HIDDEN)
    return text


def call_lines(call: Any) -> str:
    """A call as people read it: one argument per line, by position or by name."""
    if not isinstance(call, list):
        return str(call)
    positional, named = cast(tuple[list[Any], dict[str, Any]], call)
    parts = [pretty(value) for value in positional]
    parts += [f"{name} = {pretty(value)}" for name, value in named.items()]
    return "\n".join(parts) or "none"


def pretty(value: Any) -> str:
    """JSON as people read it; short lists stay on one line."""
    line = json.dumps(value, ensure_ascii=False, default=str)
    return line if len(line) <= 88 else json.dumps(value, ensure_ascii=False, indent=2, default=str)
