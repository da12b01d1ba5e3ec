"""The transaction of an exactly-once body: Django's `atomic`, with the connection looked after around it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from duly.django.compat import connections, transaction


class Atomic:
    """`transaction.atomic(using=alias)` for one body after the other."""

    is_ambient = True
    """Models need no connection in hand: the block must be open before the body starts."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def __call__(self) -> AbstractContextManager[Any]:
        return _Block(self.alias)


class _Block(AbstractContextManager[Any]):
    def __init__(self, alias: str) -> None:
        self._connection: Any = connections[alias]
        self._atomic: Any = transaction.atomic(using=alias)

    def __enter__(self) -> Any:
        self._connection.close_if_unusable_or_obsolete()
        self._atomic.__enter__()
        return self._connection

    def __exit__(self, *raised: Any) -> None:
        try:
            self._atomic.__exit__(*raised)
        finally:
            # The body was inside the block when it let go of its connections: this one could not be closed.
            self._connection.close_if_unusable_or_obsolete()
