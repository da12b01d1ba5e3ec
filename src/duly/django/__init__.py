"""Duly for Django: `INSTALLED_APPS += ["duly.django"]`.

The names are loaded when first used: Django imports this package before any application is ready, and task
modules name the backend while they are being imported. Nothing here may touch a model or a database.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from duly.errors import MissingExtra
from duly.lazily import lookup

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


_find = lookup(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES and importlib.util.find_spec("django") is None:
        raise MissingExtra("duly.django", "django")
    return _find(name)


def __dir__() -> list[str]:
    return sorted(__all__)
