"""`Ledger("django:default")`: receipts where Django's models are.

Nothing is looked up before the first use: a ledger is made where tasks are defined, which Django imports
before its databases are ready, and a test runner may point the alias elsewhere later.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any, Final, TypeVar

from duly.errors import MissingExtra, WrongConnection
from duly.ledger.dialect import Dialect
from duly.ledger.django.bodies import DjangoBodies
from duly.ledger.django.speech import Speech, connection_of, is_inside, opened, speech_for
from duly.stores.drive import Operation, Statement
from duly.stores.tables.migrations import Migration

T = TypeVar("T")

PREFIX: Final = "django:"


class LazyDialect:
    """The words of a database that is not known yet."""

    def __init__(self, find: Callable[[], Speech]) -> None:
        self._find = find

    @property
    def name(self) -> str:
        return self._find().dialect.name

    @property
    def has_schemas(self) -> bool:
        return self._find().dialect.has_schemas

    @property
    def namespace(self) -> str:
        return self._find().dialect.namespace

    def say(self, operation: str, statement: str, **parameters: Any) -> Statement:
        """As that database says it."""
        return self._find().dialect.say(operation, statement, **parameters)

    def steps(self) -> tuple[Migration, ...]:
        """The migrations of that database."""
        return self._find().dialect.steps()

    def script(self, migration: Migration) -> list[Statement]:
        """A migration as statements."""
        return self._find().dialect.script(migration)


class DjangoDatabase:
    """A database of Django's settings, by its alias."""

    def __init__(self, alias: str, namespace: str, patience: timedelta) -> None:
        if importlib.util.find_spec("django") is None:
            raise MissingExtra("A ledger in a database of Django", "django")
        self.alias = alias
        self._namespace = namespace
        self._patience = patience
        self._found: Speech | None = None
        self.dialect: Dialect = LazyDialect(self._speech)
        self.bodies = DjangoBodies(alias, self._speech)

    @property
    def shown(self) -> str:
        return f"Django's database {self.alias!r}"

    def prepare(self) -> None:
        """The first connection says what is wrong."""

    def run(self, operation: Operation[T], patience: timedelta | None = None) -> T:
        """A part of the atomic block that is open in this thread, else in a transaction of its own."""
        with opened(connection_of(self.alias)) as connection:
            if is_inside(connection):
                return self._speech().inside(connection, operation)
            return self._speech().alone(connection, operation, patience or self._patience)

    def run_on(self, connection: Any, operation: Operation[T]) -> T:
        """The only connection there is to this place is Django's own."""
        if getattr(connection, "alias", None) != self.alias:
            raise WrongConnection(
                f"This ledger is in {self.shown}: pass django.db.connections[{self.alias!r}], or leave out "
                "connection=, which is a part of the atomic block that is open."
            )
        return self.run(operation)

    async def arun_on(self, connection: Any, operation: Operation[T]) -> T:
        """Django refuses this on an event loop, and says what to do."""
        return self.run_on(connection, operation)

    def once_committed(self, act: Callable[[], object]) -> None:
        """At once, or after the commit of the atomic block; one that fails keeps no other from its turn."""
        transaction: Any = import_module("django.db.transaction")
        transaction.on_commit(act, using=self.alias, robust=True)

    def tend(self) -> None:
        """A file that Django writes is tended by Django's own connections."""

    def close(self) -> None:
        """Connections are Django's to close."""

    def _speech(self) -> Speech:
        if self._found is None:
            self._found = speech_for(self.alias, self._namespace)
        return self._found
