"""Why an operation must be tried again from its beginning; a driver sees to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from duly.stores.drive import Operation


class Repeat(Exception):
    """What the operation relied on changed under its hands. Nothing was written."""


class Needs(Repeat):
    """Another operation must be committed first."""

    def __init__(self, operation: Operation[Any], learn: Callable[[Any], None]) -> None:
        super().__init__(f"{operation.name} must come first")
        self.operation = operation
        self.learn = learn
