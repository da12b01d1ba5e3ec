"""`react`: run a function for the rows of a model that matter, when they change.

A reaction belongs to the engine in the model's own database, and `manage.py duly_worker` runs it. Migrations
may take its triggers away without a word (SQLite rebuilds a table to alter it), so `migrate` ends by putting
them back.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from duly.app import App
from duly.django import compat, errands
from duly.django.engines import database_engine
from duly.django.transactions import let_go
from duly.errors import DefinitionError, StoreError
from duly.homes import home_of
from duly.reactive.tables import is_django_model
from duly.worker.planner import Planner

log = logging.getLogger("duly.django")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A reaction as the code declares it."""

    name: str
    model: Any
    function: Callable[..., Any]
    options: Mapping[str, Any]

    @property
    def database(self) -> str:
        """Where the model's rows are written."""
        return str(compat.router.db_for_write(self.model))


_declared: dict[str, Declared] = {}


def react(
    *, model: Any, where: Any = None, watch: Sequence[str] | None = None, **options: Any
) -> Callable[[F], F]:
    """Run a function when rows of a model change: those that match the Q `where`, in the fields `watch`.

    Further options are those of `app.react` and of a task. The decorated function stays what it is.
    """
    if not is_django_model(model):
        raise DefinitionError(f"react(model={model!r}) follows no table: pass a model of Django.")
    columns = None if watch is None else [_column(model, name) for name in watch]

    def decorate(function: F) -> F:
        name = str(options.get("name") or f"{home_of(function.__module__)}.{function.__qualname__}")
        words = {**options, "name": name, "table": model, "where": where, "watch": columns}
        _declared[name] = Declared(name=name, model=model, function=function, options=words)
        return function

    return decorate


def _column(model: Any, name: str) -> str:
    columns = {field.name: field.column for field in model._meta.concrete_fields}
    if name not in columns and name not in columns.values():
        raise DefinitionError(
            f"{model.__name__} has no field {name!r} to watch. It has {', '.join(sorted(columns))}."
        )
    return str(columns.get(name, name))


def furnish(app: App) -> None:
    """Have an engine know the reactions to models of its database."""
    for one in list(_declared.values()):
        if one.name not in app.tasks and database_engine(one.database) is app:
            app.react(**one.options)(errands.named(_body(one), one.database, one.name))


def _body(one: Declared) -> Callable[..., Any]:
    """The function, with connections that work before and none kept too long after."""
    if iscoroutinefunction(one.function):
        return _async_body(one)

    @functools.wraps(one.function)
    def body(*args: Any, **kwargs: Any) -> Any:
        let_go()
        try:
            return one.function(*args, **kwargs)
        finally:
            let_go()

    return body


def _async_body(one: Declared) -> Callable[..., Any]:
    @functools.wraps(one.function)
    async def body(*args: Any, **kwargs: Any) -> Any:
        return await one.function(*args, **kwargs)

    return body


# --- in step with migrations ----------------------------------------------------------------------


def keep_in_step() -> None:
    """After every `migrate` the triggers are looked at."""
    signals: Any = importlib.import_module("django.db.models.signals")
    signals.post_migrate.connect(_on_migrate, dispatch_uid="duly.django.reacting", weak=False)


def _on_migrate(sender: Any, using: str, **_: Any) -> None:
    if sender.name == "duly.django":  # once for each run of migrate, not once for each application
        audit(using)


def audit(database: str) -> None:
    """Install what the reactions in a database need, where it is missing. A mistake is told, not raised:
    the migration has been made, and the worker will refuse to start.
    """
    compat.autodiscover_modules("tasks")
    if not any(one.database == database for one in _declared.values()):
        return
    app = database_engine(database)
    furnish(app)
    try:
        planner = Planner.of(app, _unexpected)
        if planner is not None:
            planner.prepare()
    except (DefinitionError, StoreError) as error:
        log.error("reactions to models in the database %r are not in step: %s", database, error)


def _unexpected(error: BaseException) -> None:
    raise error
