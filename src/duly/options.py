"""What a task declares about itself, checked where it is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal, TypedDict, TypeVar

from duly.durations import Duration, duration
from duly.errors import DefinitionError
from duly.homes import home_of
from duly.job import Delivery, Keep, Overlap
from duly.retry import Retry

LOWEST_PRIORITY, HIGHEST_PRIORITY = -100, 100


KEEP = Keep()

E = TypeVar("E", bound=StrEnum)


class Executor(StrEnum):
    """Where a body runs: by its nature (loop or thread), or alone in a child process."""

    AUTO = "auto"
    PROCESS = "process"


class TaskOptions(TypedDict, total=False):
    """The keywords of `@app.task(...)`, as the reference documents them."""

    name: str
    queue_name: str
    priority: int
    retry: Retry | None
    delivery: Literal["at_least_once", "at_most_once", "exactly_once"]
    soft_limit: Duration | None
    hard_limit: Duration | None
    executor: Literal["auto", "process"]
    keep_result: Duration | None
    keep_for: Duration | Mapping[str, Duration] | None
    unique_for: Duration | None
    trailing: bool
    overlap: Literal["queue_one", "skip", "allow", "cancel_previous"]
    concurrency: int | None
    concurrency_per_key: int | None
    rate: str | None
    expires: Duration | None
    redact: Sequence[str]
    on_failure: Any
    max_deferrals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """At most `starts` in every window of length `per`."""

    starts: int
    per: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A task's declaration, in types."""

    name: str
    queue_name: str = "default"
    priority: int = 0
    retry: Retry | None = None
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    soft_limit: timedelta | None = None
    hard_limit: timedelta | None = None
    executor: Executor = Executor.AUTO
    keep_result: timedelta | None = None
    keep: Keep = KEEP
    unique_for: timedelta | None = None
    trailing: bool = False
    overlap: Overlap = Overlap.QUEUE_ONE
    concurrency: int | None = None
    concurrency_per_key: int | None = None
    rate: RateLimit | None = None
    expires: timedelta | None = None
    redact: tuple[str, ...] = ()
    on_failure: Any = None
    max_deferrals: int = 100

    @property
    def per_key(self) -> int:
        """How many runs of one key may be in progress at once; 0 is no limit."""
        if self.concurrency_per_key is not None:
            return self.concurrency_per_key
        return 0 if self.overlap is Overlap.ALLOW else 1

    @property
    def needs_process(self) -> bool:
        """A hard limit can only be kept by ending a process."""
        return self.hard_limit is not None or self.executor is Executor.PROCESS


def read_options(function: Callable[..., Any], given: TaskOptions) -> Options:
    """Turn what was written into types, or say which value cannot be."""
    unknown = set(given) - set(TaskOptions.__annotations__)
    name = given.get("name") or f"{home_of(function.__module__)}.{function.__qualname__}"
    if unknown:
        raise DefinitionError(
            f"Task {name} has no option {sorted(unknown)[0]!r}. "
            f"Options: {', '.join(TaskOptions.__annotations__)}."
        )
    options = Options(
        name=checked_name(name, "name"),
        queue_name=checked_queue(given.get("queue_name", "default")),
        priority=checked_priority(given.get("priority", 0)),
        retry=_retry(given.get("retry")),
        delivery=_choice(Delivery, given.get("delivery", "at_least_once"), "delivery"),
        soft_limit=_optional(given.get("soft_limit"), "soft_limit"),
        hard_limit=_optional(given.get("hard_limit"), "hard_limit"),
        executor=_choice(Executor, given.get("executor", "auto"), "executor"),
        keep_result=_optional(given.get("keep_result"), "keep_result"),
        keep=_keep(given.get("keep_for")),
        unique_for=_optional(given.get("unique_for"), "unique_for"),
        trailing=given.get("trailing", False),
        overlap=checked_overlap(given.get("overlap", "queue_one")),
        concurrency=_limit(given.get("concurrency"), "concurrency"),
        concurrency_per_key=_limit(given.get("concurrency_per_key"), "concurrency_per_key"),
        rate=_rate(given.get("rate")),
        expires=_optional(given.get("expires"), "expires"),
        redact=_words(given.get("redact", ())),
        on_failure=given.get("on_failure"),
        max_deferrals=_limit(given.get("max_deferrals", 100), "max_deferrals") or 100,
    )
    return _consistent(options)


def _consistent(options: Options) -> Options:
    if options.delivery is Delivery.AT_MOST_ONCE and options.retry is not None:
        raise DefinitionError(
            f"Task {options.name}: retry and delivery='at_most_once' contradict each other. "
            "A retry is a second run; drop one of them."
        )
    if options.soft_limit and options.hard_limit and options.soft_limit >= options.hard_limit:
        raise DefinitionError(
            f"Task {options.name}: soft_limit {options.soft_limit} must be shorter "
            f"than hard_limit {options.hard_limit}."
        )
    if isinstance(options.on_failure, str):
        raise DefinitionError(
            f"Task {options.name}: on_failure is {options.on_failure!r}; it takes a function or a task "
            "('stop' is for @app.perpetual)."
        )
    if options.trailing and options.unique_for is None:
        raise DefinitionError(f"Task {options.name}: trailing=True means nothing without unique_for='…'.")
    return options


def checked_name(name: object, what: str) -> str:
    """Names travel into logs, URLs and file names: printable, not empty, at most 200 characters."""
    if not isinstance(name, str) or not name or len(name) > 200 or not name.isprintable():
        raise DefinitionError(f"{what} is {name!r}; it takes 1 to 200 printable characters.")
    return name


def checked_queue(name: object) -> str:
    """A queue's name; those of the engine are not for tasks."""
    queue = checked_name(name, "queue_name")
    if queue.startswith("duly."):
        raise DefinitionError(f"queue_name is {queue!r}; names that begin with 'duly.' belong to the engine.")
    return queue


def checked_priority(priority: object) -> int:
    """Django's range, larger first."""
    is_whole = isinstance(priority, int) and not isinstance(priority, bool)
    if not is_whole or not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:  # type: ignore[operator]
        raise DefinitionError(
            f"priority is {priority!r}; it takes a whole number from -100 to 100, larger first."
        )
    return priority  # type: ignore[return-value]


def _retry(retry: object) -> Retry | None:
    if retry is None or isinstance(retry, Retry):
        return retry
    raise DefinitionError(f"retry is {retry!r}; it takes duly.Retry(on=SomeError, attempts=5).")


def _choice(kind: type[E], value: object, what: str) -> E:
    try:
        return kind(str(value))
    except ValueError:
        options = ", ".join(repr(str(member)) for member in kind)
        raise DefinitionError(f"{what} is {value!r}; it takes one of {options}.") from None


def checked_overlap(value: object) -> Overlap:
    """A policy by its name."""
    policies = [policy for policy in Overlap if policy is not Overlap.QUEUE_ALL]
    if value == Overlap.QUEUE_ALL:
        raise DefinitionError("overlap='queue_all' is for ticks: use missed='all' on the schedule instead.")
    if value not in policies:
        offered = ", ".join(repr(str(policy)) for policy in policies)
        raise DefinitionError(f"overlap is {value!r}; it takes one of {offered}.")
    return Overlap(str(value))


def _optional(value: Duration | None, what: str) -> timedelta | None:
    return None if value is None else duration(value, what=what, allow_zero=False)


def _keep(value: Duration | Mapping[str, Duration] | None) -> Keep:
    if value is None:
        return Keep()
    if isinstance(value, Mapping):
        extra = set(value) - {"done", "failed"}
        if extra:
            raise DefinitionError(f"keep_for has no part {sorted(extra)[0]!r}; it takes 'done' and 'failed'.")
        return Keep(
            duration(value.get("done", Keep().done), what="keep_for['done']"),
            duration(value.get("failed", Keep().failed), what="keep_for['failed']"),
        )
    kept = duration(value, what="keep_for")
    return Keep(kept, kept)


def _words(value: Sequence[str]) -> tuple[str, ...]:
    if isinstance(value, str):
        raise DefinitionError(f"redact is {value!r}; it takes a list of argument names: [{value!r}].")
    return tuple(value)


def _limit(value: object, what: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise DefinitionError(f"{what} is {value!r}; it takes a whole number of at least 1.")
    return value


def _rate(value: str | None) -> RateLimit | None:
    if value is None:
        return None
    match = re.fullmatch(r"\s*(\d+)\s*/\s*(.+?)\s*", str(value))
    if match is None or int(match[1]) < 1:
        raise DefinitionError(f"rate is {value!r}; write it as '10/m', '5/s' or '100/1h30m'.")
    per = match[2] if match[2][0].isdigit() else f"1{match[2]}"
    return RateLimit(starts=int(match[1]), per=duration(per, what="rate", allow_zero=False))
