"""What is used of Django, and Django Tasks under one roof: its own since 6.0, before that the backport.

The only file that knows which of them is there. Names that differ have the name of Django 6.1 here. Django
ships without types, so each name is declared once, here.
"""

from __future__ import annotations

import importlib
import logging
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

from duly.errors import DefinitionError

_database: Any = importlib.import_module("django.db")

connections: Any = _database.connections
transaction: Any = _database.transaction
router: Any = _database.router
ConnectionDoesNotExist: type[Exception] = importlib.import_module(
    "django.utils.connection"
).ConnectionDoesNotExist
DatabaseError: type[Exception] = _database.DatabaseError
OperationalError: type[Exception] = _database.OperationalError
logger: Final = logging.getLogger("duly.django")
settings: Any = importlib.import_module("django.conf").settings
timezone: Any = importlib.import_module("django.utils.timezone")
checks: Any = importlib.import_module("django.core.checks")
import_string: Any = importlib.import_module("django.utils.module_loading").import_string
autodiscover_modules: Any = importlib.import_module("django.utils.module_loading").autodiscover_modules


def _package() -> str:
    for name in ("django.tasks", "django_tasks"):
        if find_spec(name) is not None:
            return name
    raise DefinitionError(
        "This Django has no django.tasks. Use Django 6 or newer, or its backport: pip install django-tasks"
    )


PACKAGE: Final = _package()


def _module(name: str = "") -> ModuleType:
    return importlib.import_module(f"{PACKAGE}.{name}" if name else PACKAGE)


_root: Any = _module()
_parts: Any = _module("base")
_exceptions: Any = _module("exceptions")
_backends: Any = _module("backends.base")

task_backends: Any = _root.task_backends
DEFAULT_BACKEND: Final[str] = _parts.DEFAULT_TASK_BACKEND_ALIAS
DEFAULT_QUEUE: Final[str] = _parts.DEFAULT_TASK_QUEUE_NAME
DEFAULT_PRIORITY: Final[int] = _parts.DEFAULT_TASK_PRIORITY

task: Any = _root.task
Task: Any = _parts.Task
TaskContext: Any = _parts.TaskContext
TaskError: Any = _parts.TaskError
TaskResult: Any = _parts.TaskResult
TaskResultStatus: Any = _parts.TaskResultStatus
BaseTaskBackend: Any = _backends.BaseTaskBackend

InvalidTask: type[Exception] = getattr(_exceptions, "InvalidTask", None) or _exceptions.InvalidTaskError
TaskResultDoesNotExist: type[Exception] = _exceptions.TaskResultDoesNotExist
TaskResultMismatch: type[Exception] = _exceptions.TaskResultMismatch


def has_checks() -> bool:
    """Whether Django Tasks has its backends checked by itself: Django does, the backport if installed."""
    return PACKAGE != "django_tasks" or is_installed("django_tasks")


def is_installed(application: str) -> bool:
    """Whether an application is in INSTALLED_APPS."""
    apps: Any = importlib.import_module("django.apps").apps
    return bool(apps.is_installed(application))


def stock_backend(module: str, name: str) -> Any:
    """A backend that comes with Django Tasks."""
    return getattr(_module(f"backends.{module}"), name)


def signals() -> Any:
    """task_enqueued, task_started and task_finished."""
    return _module("signals")


def listen() -> None:
    """Have the receivers that log, and that follow a change of settings in tests, also where the
    backport's own application is not installed.
    """
    signals()
