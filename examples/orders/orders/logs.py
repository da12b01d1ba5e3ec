"""The tasks' loggers: every line says which lease it is about, and for whom."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar

from duly import bind
from duly.context import bound

R = TypeVar("R")


class TaskLogger(logging.LoggerAdapter[logging.Logger]):
    """Puts `lease_id` and `user_id` in front of every message."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        about = bound()
        return f"lease_id={about.get('lease_id')} user_id={about.get('user_id')} {msg}", kwargs


def get_task_logger(name: str) -> TaskLogger:
    """A logger for a module of tasks."""
    return TaskLogger(logging.getLogger(name))


def about_lease(function: Callable[[int, int], R]) -> Callable[[int, int], R]:
    """Inside, log lines and whatever is enqueued carry the ids, however the task was asked for."""

    @functools.wraps(function)
    def inside(lease_id: int, user_id: int) -> R:
        with bind(lease_id=lease_id, user_id=user_id):
            return function(lease_id, user_id)

    return inside
