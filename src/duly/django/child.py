"""Where a child process of the worker looks for a Django task.

The child imports this module and asks it for a name that says which task of which backend; importing it
sets Django up, as manage.py does in the worker.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Final

_SEPARATOR: Final = "→"


def token(alias: str, path: str) -> str:
    """A name without dots, which a child would look up one after the other."""
    return f"{alias}{_SEPARATOR}{path.replace('.', '/')}"


_errands: list[str] = []


def is_one() -> bool:
    """Whether this process runs errands of a worker, which tells the world about them itself."""
    return bool(_errands)


def __getattr__(name: str) -> Any:
    alias, found, path = name.partition(_SEPARATOR)
    if not found:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _errands[:] = [name]
    _set_up()
    from duly.django.engines import engine
    from duly.django.registry import known, load

    return known(engine(alias), alias, load(path.replace("/", ".")))


def _set_up() -> None:
    apps: Any = importlib.import_module("django.apps").apps
    if not apps.ready and "DJANGO_SETTINGS_MODULE" in os.environ:
        django: Any = importlib.import_module("django")
        django.setup()
