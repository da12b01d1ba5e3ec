"""What `manage.py check` says about Duly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from duly.django.compat import checks

__all__ = ["register"]


def register() -> None:
    """Called when the application is ready."""
    checks.register(check_settings, "duly")


def check_settings(app_configs: Sequence[Any] | None = None, **kwargs: Any) -> Iterable[Any]:
    """Words in the settings that nobody reads."""
    return []
