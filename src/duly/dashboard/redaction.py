"""What people may see of a job's arguments, result, context and errors.

A task says which of its own arguments are nobody's business (`redact=`); the dashboard adds names that are
secrets wherever they turn up. The arguments of a task whose code is not here are not shown at all: nobody
could tell which of them are secret. What is hidden of a call is hidden wherever the job quotes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from duly.cli.documents import HIDDEN, call_text, names_of, parsed, shown_call
from duly.cli.words import clipped
from duly.dashboard.quotes import cleared, hidden_texts, without
from duly.secrecy import Secrecy

if TYPE_CHECKING:
    from duly.app import App
    from duly.job import Job

DEEPEST: Final = 30
NOTHING: Final = frozenset[str]()


class Redaction:
    """Hides what must not be seen."""

    def __init__(self, app: App, names: Iterable[str] = ()) -> None:
        self._app = app
        self._secrecy = Secrecy(names)

    def knows(self, task: str) -> bool:
        """Whether the task's own list is here to go by."""
        return task in self._app.tasks

    def call(self, job: Job) -> Any:
        """`[args, kwargs]` without secrets; stars where even that cannot be told."""
        return self.arguments(job.task, job.arguments)

    def arguments(self, name: str, stored: str) -> Any:
        """The same of any call of a task, such as that of every tick of a schedule."""
        task = self._app.tasks.get(name)
        if task is None:
            return HIDDEN
        shown = self.value(shown_call(parsed(stored), task), self._own(name))
        for index, parameter in enumerate(names_of(task, shown)):
            if self._secrecy.covers(parameter):
                shown[0][index] = HIDDEN
        return shown

    def call_text(self, job: Job, width: int = 160) -> str:
        """The call on one line."""
        call = self.call(job)
        return HIDDEN if call == HIDDEN else clipped(call_text("", call)[1:-1], width)

    def job(self, job: Job) -> Job:
        """The same job with stars where it quotes what is hidden: in errors, reasons, and what it gives."""
        own, hidden = self._own(job.task), hidden_texts(parsed(job.arguments), self.call(job))

        def stored(text: str) -> str:
            return json.dumps(cleared(self.value(parsed(text), own), hidden), ensure_ascii=False)

        return replace(
            job,
            error=job.error and without(job.error, hidden),
            reason=without(job.reason, hidden),
            history=tuple(replace(line, note=without(line.note, hidden)) for line in job.history),
            result=job.result and stored(job.result),
            progress=job.progress and stored(job.progress),
            context=job.context and stored(job.context),
        )

    def text(self, stored: str | None) -> Any:
        """A stored JSON text without secrets."""
        return self.value(parsed(stored))

    def value(self, value: Any, own: frozenset[str] = NOTHING, depth: int = 0) -> Any:
        """The same value with stars under every name that is a secret, of all or of a task's own."""
        if depth > DEEPEST:
            return HIDDEN
        if isinstance(value, dict):
            named = cast(dict[str, Any], value)
            if named.get("$") == "dict":  # one with a "$" among its own names is stored as pairs
                return self.value(dict(cast(list[tuple[str, Any]], named["v"])), own, depth + 1)
            return {
                name: HIDDEN
                if name in own or self._secrecy.covers(name)
                else self.value(each, own, depth + 1)
                for name, each in named.items()
            }
        if isinstance(value, list):
            values = cast(Iterable[Any], value)
            return [self.value(each, own, depth + 1) for each in values]
        return value

    def _own(self, name: str) -> frozenset[str]:
        task = self._app.tasks.get(name)
        return NOTHING if task is None else frozenset(task.options.redact)


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
