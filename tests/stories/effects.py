"""The user's own table, in the store's database: where exactly-once bodies leave what they did."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any

import psycopg


class Effects:
    """A table of numbers."""

    def __init__(self, url: str, name: str, columns: str = "amount int") -> None:
        self.url = url
        self.name = name
        self.is_sqlite = url.startswith("sqlite")
        with self.connect() as connection:
            connection.execute(f"create table {name} ({columns})")

    @property
    def path(self) -> str:
        return self.url.removeprefix("sqlite:///")

    @property
    def _insert(self) -> str:
        return f"insert into {self.name} values ({'?' if self.is_sqlite else '%s'})"

    def add(self, connection: Any, amount: int) -> None:
        connection.execute(self._insert, (amount,))

    async def aadd(self, connection: Any, amount: int) -> None:
        await connection.execute(self._insert, (amount,))

    def all(self) -> list[int]:
        with self.connect() as connection:
            return [row[0] for row in connection.execute(f"select amount from {self.name} order by amount")]

    @contextmanager
    def connect(self) -> Generator[Any, None, None]:
        """A connection of the test's own."""
        if self.is_sqlite:
            with closing(sqlite3.connect(self.path, isolation_level=None, timeout=60)) as connection:
                connection.execute("pragma wal_autocheckpoint = 0")
                yield connection
        else:
            with psycopg.connect(self.url, autocommit=True) as connection:
                yield connection

    def drop(self) -> None:
        if not self.is_sqlite:
            with self.connect() as connection:
                connection.execute(f"drop table {self.name}")
