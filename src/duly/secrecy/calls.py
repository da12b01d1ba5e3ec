"""What of one function's calls is hidden, however it is passed, and wherever a job of it quotes that.

Without the function nobody could tell which arguments are secret: then none is shown.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, cast

from duly.job import Job
from duly.secrecy.names import HIDDEN, Secrecy
from duly.secrecy.quotes import cleared, hidden_texts, unpaired, without

ANYWHERE: Final = Secrecy()
DEEPEST: Final = 30
PLACED: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Discretion:
    """Hides what the task itself (`own`) or anybody calls a secret.

    `handed_in` are the parameters that no caller fills, such as the run.
    """

    def __init__(
        self,
        function: Callable[..., Any] | None,
        own: Collection[str] = (),
        handed_in: Collection[str] = (),
        secrecy: Secrecy = ANYWHERE,
    ) -> None:
        ours = [] if function is None else [one for one in _parameters(function) if one.name not in handed_in]
        collectors = {one.kind: one.name for one in ours}
        self._has_code = function is not None
        self._own = frozenset(own)
        self._secrecy = secrecy
        self._known = {one.name for one in ours}
        self._places = [one.name for one in ours if one.kind in PLACED]
        self._rest = collectors.get(inspect.Parameter.VAR_POSITIONAL, "")
        self._others = collectors.get(inspect.Parameter.VAR_KEYWORD, "")

    def call(self, call: Any) -> Any:
        """`[args, kwargs]` with stars in the place of secrets."""
        if not self._has_code:
            return HIDDEN
        if not is_call(call):
            return self.value(call)
        positional, named = call
        names = self._names_of(len(positional))
        return [
            [
                self._seen(value, is_secret=self._covers(name))
                for name, value in zip(names, positional, strict=True)
            ],
            {name: self._seen(value, is_secret=self._covers_word(name)) for name, value in named.items()},
        ]

    def job(self, job: Job, call: Any) -> Job:
        """The same job with stars where it quotes what is hidden of its call: in all that it says."""
        hidden = hidden_texts(call, self.call(call)) if _says_something(job) else []

        def stored(text: str) -> str:
            return json.dumps(cleared(self.value(parsed(text)), hidden), ensure_ascii=False)

        return replace(
            job,
            error=job.error and without(job.error, hidden),
            reason=without(job.reason, hidden),
            history=tuple(replace(line, note=without(line.note, hidden)) for line in job.history),
            result=job.result and stored(job.result),
            progress=job.progress and stored(job.progress),
            context=job.context and stored(job.context),
        )

    def value(self, value: Any, depth: int = 0) -> Any:
        """The same value with stars under every name that is a secret."""
        if depth > DEEPEST:
            return HIDDEN
        if isinstance(value, dict):
            return {
                name: self._seen(each, depth + 1, is_secret=self._covers(name))
                for name, each in unpaired(cast(dict[str, Any], value)).items()
            }
        if isinstance(value, list):
            return [self.value(each, depth + 1) for each in cast(Iterable[Any], value)]
        return value

    def _seen(self, value: Any, depth: int = 0, *, is_secret: bool) -> Any:
        return HIDDEN if is_secret else self.value(value, depth)

    def _names_of(self, count: int) -> list[str]:
        """What the function calls its first so many places; `*rest` lends its name to all that it takes."""
        return [*self._places, *repeat(self._rest, count)][:count]

    def _covers(self, name: str) -> bool:
        return name in self._own or self._secrecy.covers(name)

    def _covers_word(self, name: str) -> bool:
        """Of an argument passed by name, which `**others` may have taken."""
        return self._covers(name) or (name not in self._known and self._covers(self._others))


def _says_something(job: Job) -> bool:
    """Whether it could quote its call: in all the forms that it may take, ten thousand values cost 0.3 s."""
    said = job.error or job.reason or job.history or job.result or job.progress
    return bool(said) or job.context not in ("", "{}")


def is_call(call: Any) -> bool:
    """Whether it is `[args, kwargs]`: what another program stored may be anything."""
    return isinstance(call, list) and [type(part) for part in call] == [list, dict]  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]


def parsed(text: str | None) -> Any:
    """Stored JSON as values; text that is none stays text."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


@lru_cache(maxsize=1000)
def _parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    """Read once: a page of fifty jobs asked 750 times, which was half of its time."""
    return tuple(inspect.signature(function).parameters.values())
