"""Talking to PostgreSQL through Django's connection, which must be one of psycopg 3."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from duly.ledger.dialect import Dialect
from duly.ledger.django.speech import connection_of
from duly.ledger.postgres.body import idle_limit
from duly.ledger.postgres.database import NOTHING, PostgresDatabase, dialect_for
from duly.ledger.postgres.talk import drive, perform
from duly.stores.drive import Operation
from duly.stores.postgres.address import Address
from duly.stores.postgres.caller import check_state, raw_connection, told

T = TypeVar("T")


class DjangoConnections:
    """Lends this thread's connection."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    @contextmanager
    def lent(self) -> Generator[psycopg.Connection[Any], None, None]:
        """Connected. Django wraps what the driver says; whoever tries again wants to see the driver's."""
        error_class: type[Exception] = import_module("django.db").Error
        try:
            connection_of(self._alias).ensure_connection()
        except error_class as error:
            raise (error.__cause__ if isinstance(error.__cause__, psycopg.Error) else error) from error
        yield raw(connection_of(self._alias))

    def clear(self) -> None:
        """It was cut off."""
        connection_of(self._alias).close()

    def close(self) -> None:
        """Connections are Django's to close."""


class PostgresSpeech:
    """Through Django's connection to a server."""

    def __init__(self, alias: str, namespace: str) -> None:
        whole = dialect_for(namespace)
        self.dialect: Dialect = whole
        password = connection_of(alias).settings_dict.get("PASSWORD") or None
        self._address = Address(conninfo="", shown=f"Django's database {alias!r}", password=password)
        lender = DjangoConnections(alias)
        nobody: Any = None  # bodies have connections of Django too, see bodies.py
        self._database = PostgresDatabase(self._address, whole, lender, nobody, timedelta(seconds=10))

    def alone(self, connection: Any, operation: Operation[T], patience: timedelta) -> T:
        """Tried again where the connection was cut off meanwhile."""
        return self._database.run(operation, patience)

    def inside(self, connection: Any, operation: Operation[T]) -> T:
        """In a savepoint. The driver begins a transaction at its first statement, which must not be ours."""
        driver = raw(connection)
        check_state(driver)
        try:
            if driver.info.transaction_status is TransactionStatus.IDLE:
                perform(driver, NOTHING)
            with driver.transaction():
                return drive(driver, operation)
        except psycopg.Error as error:
            raise told(error, self._address, operation.name) from error

    def last(self, connection: Any, operation: Operation[T]) -> T:
        """In a transaction that the body has not ended."""
        return drive(raw(connection), operation)


def raw(connection: Any) -> psycopg.Connection[Any]:
    """The driver's connection inside that of Django."""
    found: Any = raw_connection(connection)
    driver: psycopg.Connection[Any] = found
    return driver


def begin(connection: Any, limit: timedelta | None) -> None:
    """Have the driver begin now. The limit holds for this transaction only, so it must be ours."""
    if limit is None:
        perform(raw(connection), NOTHING)
    else:
        raw(connection).execute(idle_limit(limit))
