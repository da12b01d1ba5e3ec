"""Duly for Django: `INSTALLED_APPS += ["duly.django"]`.

The names are loaded when first used: Django imports this package before any application is ready, and task
modules name the backend while they are being imported. Nothing here may touch a model or a database.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from duly.errors import MissingExtra

if TYPE_CHECKING:
    from duly.django.backend import DulyBackend
    from duly.django.declaring import DulyTask, task
    from duly.django.engines import database_engine, engine
    from duly.django.executions import exactly_once, ledger
    from duly.django.reacting import react
    from duly.django.scheduling import scheduled_task
    from duly.django.testing import DummyBackend, ImmediateBackend

_HOMES = {
    "DulyBackend": "backend",
    "DulyTask": "declaring",
    "DummyBackend": "testing",
    "ImmediateBackend": "testing",
    "database_engine": "engines",
    "engine": "engines",
    "exactly_once": "executions",
    "ledger": "executions",
    "react": "reacting",
    "scheduled_task": "scheduling",
    "task": "declaring",
}

__all__ = [
    "DulyBackend",
    "DulyTask",
    "DummyBackend",
    "ImmediateBackend",
    "database_engine",
    "engine",
    "exactly_once",
    "ledger",
    "react",
    "scheduled_task",
    "task",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'duly.django' has no attribute {name!r}")
    if importlib.util.find_spec("django") is None:
        raise MissingExtra("duly.django", "django")
    value = getattr(importlib.import_module(f"duly.django.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
