"""Where a child process of the worker looks for what is no Task of Django's: ticks, and reactions to models.

The child imports this module and asks it for a name that says which task of which database; that sets Django
up, as manage.py did in the worker.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, Final

_SEPARATOR: Final = "→"


def named(function: Callable[..., Any], database: str, name: str) -> Callable[..., Any]:
    """Give a function a name by which a child finds the task that it became. No dots: they are looked up."""
    function.__module__ = __name__
    function.__qualname__ = f"{database}{_SEPARATOR}{name.replace('.', '/')}"
    return function


def __getattr__(name: str) -> Any:
    database, found, path = name.partition(_SEPARATOR)
    if not found:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _set_up()
    from duly.django import reacting, scheduling
    from duly.django.engines import database_engine

    app = database_engine(database)
    scheduling.furnish(app)
    reacting.furnish(app)
    return app.get_task(path.replace("/", "."))


def _set_up() -> None:
    apps: Any = importlib.import_module("django.apps").apps
    if not apps.ready and "DJANGO_SETTINGS_MODULE" in os.environ:
        django: Any = importlib.import_module("django")
        django.setup()
