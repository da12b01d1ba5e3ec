"""An application that brings the tasks of one module, named by the environment."""

from __future__ import annotations

import importlib
import os
from typing import Any

_AppConfig: Any = importlib.import_module("django.apps").AppConfig


class ExtraConfig(_AppConfig):  # type: ignore[misc]
    """Its tasks are imported when Django is ready."""

    name = "tests.django_schedules.programs"
    label = "extra"
    path = os.path.dirname(__file__)

    def ready(self) -> None:
        importlib.import_module(os.environ["SITE_TASKS"])
