"""`DulyTask`: a Django Task that also says how it is to be retried, limited and kept apart.

On Django 6.1 and the backport `@task(retry=…)` makes one by itself; Django 6.0 takes no further keywords, so
there is a decorator of our own with the same words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, cast, overload

from duly.django import compat
from duly.durations import Duration
from duly.errors import BadRequest, DulyError
from duly.options import TaskOptions, read_options
from duly.retry import Retry
from duly.wishes import UsingOptions, Wishes, read_wishes

REQUEST_WORDS: Final = ("key", "replace", "unique_for", "trailing", "overlap", "expires")
"""What one request may say otherwise than its task."""
TASK_WORDS: Final = (
    "retry", "delivery", "soft_limit", "hard_limit", "executor", "keep_result", "keep_for", "concurrency",
    "concurrency_per_key", "rate", "redact", "on_failure", "max_deferrals",
)  # fmt: skip
"""What only the task's declaration can say, because the worker reads it there."""

KEPT: Final = "1d"
"""How long return values stay: as long as jobs that are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DulyTask(compat.Task):  # type: ignore[misc]
    """A task of Django's with the options of Duly; each means what it means in `@app.task`."""

    run_after: datetime | timedelta | None = None
    """The earliest moment, or how long to wait from the request on."""
    key: str | None = None
    replace: bool = False
    unique_for: Duration | None = None
    trailing: bool = False
    overlap: str = "queue_one"
    expires: Duration | None = None
    retry: Retry | None = None
    delivery: str = "at_least_once"
    soft_limit: Duration | None = None
    hard_limit: Duration | None = None
    executor: str = "auto"
    keep_result: Duration | None = KEPT
    keep_for: Duration | Mapping[str, Duration] | None = None
    concurrency: int | None = None
    concurrency_per_key: int | None = None
    rate: str | None = None
    redact: Sequence[str] = ()
    on_failure: Any = None
    max_deferrals: int = 100

    def __post_init__(self) -> None:
        check_task(self)
        compat.Task.__post_init__(self)
        if words := told(self):
            _told[self.backend, self.module_path] = words

    def using(self, **given: Any) -> Any:
        """The task with other words for the next request: Django's, and those of a request in Duly."""
        for word in given:
            if word in TASK_WORDS:
                raise compat.InvalidTask(
                    f"using() cannot set {word!r}: the worker reads it where the task is declared. "
                    f"Write @task({word}=…)."
                )
            if word not in (*REQUEST_WORDS, "priority", "queue_name", "run_after", "backend"):
                raise TypeError(f"using() has no option {word!r}. Ours are {', '.join(REQUEST_WORDS)}.")
        changes = {word: value for word, value in given.items() if value is not None or word in REQUEST_WORDS}
        return dataclasses.replace(self, **changes)


_told: dict[tuple[str, str], list[str]] = {}


def told(task: Any) -> list[str]:
    """The words of ours that a task says something with."""
    return [word for word in (*REQUEST_WORDS, *TASK_WORDS) if getattr(task, word) != _DEFAULTS[word]]


def told_so_far() -> dict[tuple[str, str], list[str]]:
    """All of them in this process, by backend and path."""
    return dict(_told)


def task_options(task: Any) -> TaskOptions:
    """What the engine is told of a task; one that Django's own decorator made says nothing."""
    words = {word: getattr(task, word, _DEFAULTS[word]) for word in TASK_WORDS}
    return cast(TaskOptions, {"name": task.module_path, **words})


def task_wishes(task: Any) -> Wishes:
    """What a request of this task asks for."""
    words = {word: getattr(task, word, _DEFAULTS[word]) for word in REQUEST_WORDS}
    given = {**words, "priority": task.priority, "queue_name": task.queue_name}
    return read_wishes(Wishes(), cast(UsingOptions, {**given, "run_after": _moment(task.run_after)}))


def _moment(run_after: datetime | timedelta | None) -> datetime | timedelta | None:
    """Without USE_TZ Django's moments are in the time zone of the project."""
    if isinstance(run_after, datetime) and run_after.utcoffset() is None:
        aware: datetime = compat.timezone.make_aware(run_after, compat.timezone.get_default_timezone())
        return aware
    return run_after


def check_task(task: Any) -> None:
    """Refuse what the engine would refuse, where it is written."""
    try:
        options = read_options(task.func, task_options(task))
        # A guard or a replacement needs a key, which only the request knows.
        words = {"unique_for": task.unique_for, "overlap": task.overlap, "expires": task.expires}
        read_wishes(Wishes(), cast(UsingOptions, {**words, "key": task.key}))
    except DulyError as error:
        raise compat.InvalidTask(str(error)) from error
    if task.trailing and task.unique_for is None:
        raise compat.InvalidTask(f"{options.name}: trailing=True means nothing without unique_for='…'.")


def check_request(task: Any) -> None:
    """Refuse a request that the engine would refuse: a guard or a replacement without a key."""
    wishes = task_wishes(task)
    if wishes.key is None and (wishes.replaces or wishes.unique_for is not None):
        word = "replace=True" if wishes.replaces else "unique_for"
        raise BadRequest(f"{task.module_path}: {word} needs to know about what: .using(key='lease:42', …).")


_DEFAULTS: Final[Mapping[str, Any]] = {
    each.name: each.default
    for each in dataclasses.fields(DulyTask)
    if each.name in (*TASK_WORDS, *REQUEST_WORDS)
}


@overload
def task(function: Callable[..., Any], /) -> DulyTask: ...
@overload
def task(**options: Any) -> Callable[[Callable[..., Any]], DulyTask]: ...
def task(
    function: Callable[..., Any] | None = None,
    *,
    priority: int = compat.DEFAULT_PRIORITY,
    queue_name: str = compat.DEFAULT_QUEUE,
    backend: str = compat.DEFAULT_BACKEND,
    takes_context: bool = False,
    **options: Any,
) -> Any:
    """Django's `@task` with the options of Duly, on every Django and whatever backend the settings name."""
    unknown = set(options) - {*REQUEST_WORDS, *TASK_WORDS}
    if unknown:
        raise TypeError(
            f"@task has no option {sorted(unknown)[0]!r}. Beside Django's there are "
            f"{', '.join((*REQUEST_WORDS, *TASK_WORDS))}."
        )

    def decorate(function: Callable[..., Any]) -> DulyTask:
        return DulyTask(
            func=function,
            priority=priority,
            queue_name=queue_name,
            backend=backend,
            takes_context=takes_context,
            **options,
        )

    return decorate if function is None else decorate(function)
