"""Which transaction a request joins: the caller's, where it is in the same database, or none.

`enqueue_on_commit` in the backend's OPTIONS says otherwise: True waits for the commit of the backend's
database, an alias for that of another one, False never joins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from duly.app import App
from duly.django import compat
from duly.django.place import backend_options, place_of
from duly.job import Request


def is_in_transaction(connection: Any) -> bool:
    """In `atomic()`, or where the application has switched autocommit off; a closed connection is in none."""
    return connection.in_atomic_block or (connection.connection is not None and not connection.autocommit)


@dataclass(frozen=True, slots=True)
class Meeting:
    """A backend and its engine, at the moment of a request."""

    alias: str
    app: App
    on_commit: bool | str | None

    @property
    def connection(self) -> Any:
        """The caller's connection, if it is in a transaction that requests go into."""
        place = place_of(backend_options(self.alias) or {})
        waits = place.is_in_database if self.on_commit is None else self.on_commit in (True, place.database)
        if not waits:
            return None
        connection = compat.connections[place.database]
        return connection if is_in_transaction(connection) else None

    def place(self, request: Request) -> str:
        """Store it, or see to it that it is stored after the commit; the id of the job it became."""
        if self._awaited is not None:
            compat.transaction.on_commit(lambda: self._put(request), using=self._awaited)
            return request.id
        return self._put(request)

    @property
    def _awaited(self) -> str | None:
        """Another database whose transaction must have been committed first."""
        other = self.on_commit if isinstance(self.on_commit, str) else None
        if other is None or other == place_of(backend_options(self.alias) or {}).database:
            return None
        return other if is_in_transaction(compat.connections[other]) else None

    def _put(self, request: Request) -> str:
        return self.app.place([request], self.connection)[0].id
