"""`DulyTask`: a Django Task that also says how it is to be retried, limited and kept apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from duly.django import compat

DulyTask = compat.Task


def task(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Django's `@task`, with the options of Duly also where Django's own takes none (6.0)."""
    raise NotImplementedError
