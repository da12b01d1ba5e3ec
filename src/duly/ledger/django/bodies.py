"""The transaction of a body: `transaction.atomic`, open before the body begins, because models need no
connection in hand to be part of it.

The database hears of it at the body's first statement, so a body may call others first for as long as it
likes. On SQLite it takes the write lock at the first write and not before: Django's own BEGIN would read
first and then fail to write as soon as anybody else, a renewal of the claim for one, had written meanwhile.
"""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from importlib import import_module
from typing import Any, Final, NoReturn, TypeVar

from duly.errors import DefinitionError, TransactionEnded
from duly.ledger.django.speech import Speech, connection_of, opened
from duly.ledger.sqlite.words import ends_transaction, may_write
from duly.stores.drive import Operation

T = TypeVar("T")


class RolledBack(Exception):
    """What Django is told when a body's transaction is to end undone."""


class DjangoBodies:
    """Atomic blocks for bodies."""

    is_ambient = True

    def __init__(self, alias: str, speech: Any) -> None:
        self._alias = alias
        self._speech = speech

    def begin(self, limit: timedelta) -> DjangoTransaction:
        """Open a block."""
        made = DjangoTransaction(self._alias, self._speech())
        made.begin(limit)
        return made

    async def abegin(self, limit: timedelta) -> NoReturn:
        """Not to be had."""
        raise DefinitionError(
            "Django has no transactions in async code, so nothing there can be exactly once. Write the "
            "guarded function as a plain `def`."
        )


class DjangoTransaction:
    """One body's block."""

    def __init__(self, alias: str, speech: Speech) -> None:
        self.connection: Any = connection_of(alias)
        self._speech = speech
        self._atomic: Any = import_module("django.db.transaction").atomic(using=alias)
        self._watch: Watch = Watch()
        self._around = ExitStack()

    def begin(self, limit: timedelta) -> None:
        """Enter it, inside of whatever block there is already."""
        with ExitStack() as around:
            around.enter_context(opened(self.connection))
            if self.connection.vendor == "postgresql":
                is_outermost = not self.connection.in_atomic_block
                self._watch = PostgresWatch(limit if is_outermost else None)
            around.enter_context(self.connection.execute_wrapper(self._watch))
            self._atomic.__enter__()
            self._watch.is_entering = False
            self._around = around.pop_all()

    def perform(self, operation: Operation[T]) -> T:
        """As its last words, and its first if the body had none."""
        if self.connection.needs_rollback:
            raise TransactionEnded(BROKEN)
        self._watch.begin(self.connection)
        return self._speech.last(self.connection, operation)

    def commit(self) -> None:
        """Effects and completion, together."""
        with self._around:
            self._atomic.__exit__(None, None, None)

    def rollback(self) -> None:
        """Neither."""
        with self._around:
            self._atomic.__exit__(RolledBack, RolledBack(), None)


class Watch:
    """Sees every statement on Django's connection while a body runs. This one is for SQLite."""

    def __init__(self) -> None:
        self.is_entering = True
        self.has_begun = False

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        connection = context["connection"]
        if self.is_entering and sql.upper().startswith("BEGIN"):
            return None  # announced; the first write begins
        if ends_transaction(sql) or (self.has_begun and not connection.connection.in_transaction):
            raise TransactionEnded(ENDED)
        if may_write(sql):
            self.begin(connection)
        return execute(sql, params, many, context)

    def begin(self, connection: Any) -> None:
        """Take the write lock, once."""
        raw = connection.connection
        if self.has_begun and not raw.in_transaction:
            raise TransactionEnded(ENDED)
        if not raw.in_transaction:
            raw.execute("BEGIN IMMEDIATE").close()
        self.has_begun = True


class PostgresWatch(Watch):
    """For PostgreSQL, whose driver begins at the first statement: how long it may be idle is said there."""

    def __init__(self, limit: timedelta | None) -> None:
        super().__init__()
        self._limit = limit

    def __call__(self, execute: Any, sql: Any, params: Any, many: bool, context: Any) -> Any:
        if not self.is_entering:
            self.begin(context["connection"])
        return execute(sql, params, many, context)

    def begin(self, connection: Any) -> None:
        """Have the driver begin, once: an end made by hand can then be told from a beginning."""
        from duly.ledger.django import postgres

        if not self.has_begun:
            self.has_begun = True
            postgres.begin(connection, self._limit)


BROKEN: Final = (
    "An error inside the body's transaction was caught, and Django will roll it back. Let the error out, or "
    "catch it around an atomic block of its own."
)
ENDED: Final = (
    "The guard ends this transaction, not COMMIT or ROLLBACK: return to commit, raise to roll back, atomic() "
    "for a part."
)
