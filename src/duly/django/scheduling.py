"""`scheduled_task`: tasks that run by themselves, on any backend of Django Tasks.

Each is a schedule of Duly's engine in Django's database, so an operator's pause, a missed run and an edit
survive restarts and deploys, and any number of schedulers is safe. A tick makes an execution in its own
transaction and hands it over after the commit.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from duly import codec
from duly.app import App
from duly.converse import converse
from duly.django import compat, errands
from duly.django.executions import RIGHT_ORDER, is_guarded, ledger, main_database, wish
from duly.errors import DefinitionError, StoreUnavailable
from duly.kinds import periodic
from duly.retry import Retry
from duly.run import Run
from duly.schedules import plain_terms, register

log = logging.getLogger("duly.django")

T = TypeVar("T")

TICK: Final = "duly.django.tick"
QUEUE: Final = "duly-ticks"
"""Whose jobs a scheduler takes, and a worker beside its own."""
LONGEST_NAME: Final = 200
WORDS: Final = ("missed", "grace", "max_catch_up", "jitter", "start", "end")
"""Further options of a schedule of Duly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A schedule as code or a row of the database declares it."""

    name: str
    wish: Mapping[str, Any]
    timing: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def terms(self) -> dict[str, Any]:
        """As the engine stores it; every mistake in it is found here.

        Ticks that look at each other's executions come one after the other.
        """
        overlap = "queue_one" if self.wish["overlap"] == "skip" else "allow"
        found = plain_terms(
            {**self.timing, "task": TICK, "overlap": overlap, "arguments": codec.pack((dict(self.wish),), {})}
        )
        periodic.read_terms(self.name, found)
        return found


class Registry:
    """The schedules that code declares, by name."""

    def __init__(self) -> None:
        self._declared: dict[str, Declared] = {}

    def add(self, declared: Declared) -> None:
        """Two of one name are an error, unless a module was only imported again."""
        known = self._declared.get(declared.name)
        if known is not None and known.wish["task"] != declared.wish["task"]:
            raise DefinitionError(
                f"Two schedules are named {declared.name!r}: of {known.wish['task']} and of "
                f"{declared.wish['task']}. Give one of them name='…'."
            )
        if known is not None and known != declared:
            raise DefinitionError(
                f"{declared.wish['task']} is scheduled twice under the name {declared.name!r}. "
                "Give each schedule a name='…' of its own."
            )
        self._declared[declared.name] = declared

    def all(self) -> list[Declared]:
        """By name."""
        return [self._declared[name] for name in sorted(self._declared)]

    def __contains__(self, name: object) -> bool:
        return name in self._declared


registry = Registry()
"""What `@scheduled_task` fills."""


def scheduled_task(  # noqa: PLR0913  the words of a schedule, each with a name at the call
    *,
    cron: str | None = None,
    every: Any = None,
    name: str | None = None,
    timezone: str = "UTC",
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    queue_name: str | None = None,
    priority: int | None = None,
    backend: str | None = None,
    overlap: str = "allow",
    **timing: Any,
) -> Callable[[T], T]:
    """Run a task by itself, at the times of `cron` in `timezone` or every so often. Goes above `@task()`.

    With overlap="skip" a tick is left out while an earlier run of the schedule is not completed. `missed`,
    `grace`, `max_catch_up`, `jitter`, `start` and `end` mean what they mean in Duly's schedules.
    """
    unknown = set(timing) - set(WORDS)
    if unknown:
        raise DefinitionError(
            f"@scheduled_task has no option {sorted(unknown)[0]!r}. Further ones are {', '.join(WORDS)}."
        )
    times = {"cron": cron, "every": every, "timezone": timezone, **timing}

    def decorate(task: T) -> T:
        given: Any = task
        if not isinstance(given, compat.Task):
            raise DefinitionError(f"@scheduled_task goes above @task: it got {task!r}. {RIGHT_ORDER}")
        words = {"queue_name": queue_name, "priority": priority, "backend": backend}
        routed = given.using(**{word: value for word, value in words.items() if value is not None})
        found = declare(routed, name or given.module_path, (args, kwargs or {}), times, overlap)
        registry.add(found)
        return task

    return decorate


def declare(
    task: Any,
    name: str,
    arguments: tuple[Sequence[Any], Mapping[str, Any]],
    times: Mapping[str, Any],
    overlap: str = "allow",
) -> Declared:
    """Check a schedule as far as it can be checked without a database."""
    if overlap not in ("allow", "skip"):
        raise DefinitionError(f"Schedule {name!r} has overlap={overlap!r}. Use 'allow' or 'skip'.")
    if overlap == "skip" and not is_guarded(task):
        raise DefinitionError(
            f"Schedule {name!r} has overlap='skip', and nobody would know when a run of {task.module_path} "
            f"is over: guard it. {RIGHT_ORDER}"
        )
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise DefinitionError(f"{name!r} names no schedule: use 1 to {LONGEST_NAME} printable characters.")
    try:
        json.dumps([list(arguments[0]), dict(arguments[1])], allow_nan=False)
    except (TypeError, ValueError) as error:
        raise DefinitionError(f"The arguments of schedule {name!r} are no JSON: {error}.") from error
    given = {word: value for word, value in times.items() if value is not None}
    wanted = {**wish(task, name, *arguments), "overlap": overlap}
    found = Declared(name=name, wish=wanted, timing=given)
    found.terms()
    return found


# --- the engine's side ----------------------------------------------------------------------------

_furnishing = threading.Lock()


def furnish(app: App) -> None:
    """Have the engine know the code's schedules. May be done again: what it knows it keeps."""
    discover()
    with _furnishing:
        if TICK not in app.tasks:
            app.task(name=TICK, queue_name=QUEUE, delivery="exactly_once", priority=100, retry=_patience())(
                _tick()
            )
        for declared in registry.all():
            app.schedule_terms[declared.name] = declared.terms()


def discover() -> None:
    """Import the `tasks` module of every application: whoever schedules must have seen all schedules."""
    compat.autodiscover_modules("tasks")


def _patience() -> Retry:
    """A database that is locked or away for a while must not cost a schedule its tick."""
    return Retry(on=(StoreUnavailable, compat.OperationalError), attempts=None, first="1s", cap="1m")


def _tick() -> Callable[..., Any]:
    def body(run: Run, wanted: dict[str, Any]) -> None:
        tick(run, wanted)

    return errands.named(body, main_database(), TICK)


def tick(run: Run, wanted: dict[str, Any]) -> None:
    """One instant of one schedule: an execution, in the transaction that ends the tick.

    Its id names the instant, so a tick that is run again finds what it made. With effects in another database
    the execution is there before the tick is over, and either commit may come last.
    """
    moment = run.tick or datetime.min.replace(tzinfo=UTC)
    execution = periodic.tick_key(wanted["schedule"], moment)
    if wanted["overlap"] == "skip" and _is_running(wanted):
        log.info("execution %s is left out: an earlier one is not completed", execution)
        return
    ledger(wanted["database"]).issue(wanted["task"], (), wanted, execution_id=execution)


def _is_running(wanted: Mapping[str, Any]) -> bool:
    """Whether an earlier execution of the schedule is pending. All of them have ids that begin alike."""
    from duly.django.models import TaskExecution

    first = f"{wanted['schedule']}@"
    of_schedule = TaskExecution.objects.using(wanted["database"]).filter(id__gte=first, id__lt=f"{first}~")
    return bool(of_schedule.filter(status="pending").exists())


def bring(app: App, declared: Iterable[Declared]) -> None:
    """Have the store know schedules: new terms are in force at once, an operator's edits stay."""
    terms = {one.name: one.terms() for one in declared}
    if terms:
        converse(app.store, register(app.store, terms))
        app.store.ring()
