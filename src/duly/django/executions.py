"""`exactly_once`: one committed effect per execution, on whatever backend a task runs.

An execution is a receipt in a database of Django's: made by the scheduler, handed over with its id after the
commit, claimed by whichever delivery comes first, and completed in the transaction of the body.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Final, ParamSpec, TypeVar, overload

from duly import ledger as receipts
from duly.django import compat
from duly.django.place import duly_setting
from duly.django.registry import load
from duly.errors import DefinitionError
from duly.ledger import HandOver, Ledger
from duly.ledger.values import Refused

ID: Final = "_duly_execution_id"
"""The keyword argument by which a delivery says which execution it is."""
RIGHT_ORDER: Final = """Write them in this order:

    @scheduled_task(cron="0 2 * * *")
    @task()
    @exactly_once
    def nightly_billing(): ..."""

P = ParamSpec("P")
R = TypeVar("R")

_ledgers: dict[str, Ledger] = {}
_making = threading.Lock()


def main_database() -> str:
    """The alias of the database that schedules and executions are in."""
    return str(duly_setting().get("database") or "default")


def ledger(using: str | None = None) -> Ledger:
    """The executions in a database of Django's, by its alias. Connects at first use."""
    alias = using or main_database()
    with _making:
        if alias not in _ledgers:
            terms: dict[str, Any] = duly_setting().get("executions") or {}
            made = Ledger(f"django:{alias}", **terms)
            made.hand_over(partial(hand_over, made))
            _ledgers[alias] = made
        return _ledgers[alias]


def ledgers() -> list[Ledger]:
    """Of every database in which an execution may wait: that of the schedules, and those of guarded tasks."""
    ledger()
    return list(_ledgers.values())


@overload
def exactly_once(function: Callable[P, R], /) -> Callable[P, R | None]: ...
@overload
def exactly_once(*, using: str | None = None) -> Callable[[Callable[P, R]], Callable[P, R | None]]: ...
def exactly_once(function: Any = None, /, *, using: str | None = None) -> Any:
    """Give each scheduled execution of a task one committed effect. It goes nearest the function.

    The body runs in a transaction of the database `using`, which commits together with the execution's
    completion. A duplicate delivery returns None at once; a direct call and a manual enqueue run normally.
    """
    return partial(_guarded, using) if function is None else _guarded(using, function)


def _guarded(using: str | None, function: Callable[..., Any]) -> Any:
    _check(function)
    guarded: Any = receipts.exactly_once(
        ledger=ledger(using), id_argument=ID, missing="skip", follows_runs=False
    )(function)
    guarded.execution_database = using or main_database()
    return guarded


def _check(function: Any) -> None:
    if isinstance(function, compat.Task):
        raise DefinitionError(
            f"@exactly_once is above @task on {function.module_path}, where no delivery passes it. "
            + RIGHT_ORDER
        )
    if not callable(function):
        raise DefinitionError(f"@exactly_once guards a function, not {function!r}. {RIGHT_ORDER}")
    if iscoroutinefunction(function):
        raise DefinitionError(
            f"{function.__module__}.{function.__qualname__} is async, and Django has no transactions in "
            "async code: write it as a plain `def` to have @exactly_once."
        )


def is_guarded(task: Any) -> bool:
    """Whether a task's function is wrapped by exactly_once."""
    return hasattr(task.func, "execution_database")


def database_of(task: Any) -> str:
    """Where the executions of a task are: with its effects if they are guarded, else with the schedules."""
    return str(getattr(task.func, "execution_database", None) or main_database())


# --- handing over ---------------------------------------------------------------------------------


def wish(task: Any, schedule: str, args: Any, kwargs: Any) -> dict[str, Any]:
    """What an execution must know to be handed over, also after its schedule has changed or gone."""
    return {
        "schedule": schedule,
        "task": task.module_path,
        "args": list(args),
        "kwargs": dict(kwargs),
        "queue_name": task.queue_name,
        "priority": task.priority,
        "backend": task.backend,
        "database": database_of(task),
    }


def hand_over(made: Ledger, order: HandOver) -> None:
    """Enqueue an execution's task on its backend. What fails is tried again by the sweep."""
    wanted = order.kwargs
    words = {word: wanted[word] for word in ("queue_name", "priority", "backend")}
    task = load(wanted["task"]).using(**words)
    if is_guarded(task):
        task.enqueue(*wanted["args"], **wanted["kwargs"], **{ID: order.id})
    else:
        _trust(made, order.id, lambda: task.enqueue(*wanted["args"], **wanted["kwargs"]))


def _trust(made: Ledger, execution: str, enqueue: Callable[[], Any]) -> None:
    """Without a guard the execution is over when the backend has the task, and nobody hands it over again.

    A crash between the two is the small window in which a task without `exactly_once` is enqueued twice.
    """
    claim = made.claim(execution, makes_as=None)
    if isinstance(claim, Refused):
        return
    made.beat.add(claim)  # a backend may run the task before it returns
    try:
        enqueue()
    except BaseException:
        made.run(made.operations.release(claim))
        raise
    finally:
        made.beat.remove(claim)
    made.run(made.operations.complete(claim))
