"""The transaction of an exactly-once body, Django's `atomic`, and the connections around any body."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from duly.django.compat import connections, transaction


def let_go() -> None:
    """Close this thread's connections that are broken or past their age, as Django does around a request.

    Not those in a transaction: it is the run's, which has not ended, or a test's.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


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
        let_go()
        self._atomic.__enter__()
        return self._connection

    def __exit__(self, *raised: Any) -> None:
        try:
            self._atomic.__exit__(*raised)
        finally:
            # The body was inside the block when it let go of its connections: this one could not be closed.
            let_go()
