"""The tables of the engine and of the outbox, out of the stores' own SQL."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

from duly.django.steps import Step

_Migration: Any = importlib.import_module("django.db.migrations").Migration


class Migration(_Migration):  # type: ignore[misc]
    """The first version of the schema."""

    initial = True
    dependencies: ClassVar[list[Any]] = []
    operations: ClassVar[list[Any]] = [Step("engine", 1), Step("outbox", 1)]
