"""The least that can drive the operations: one connection, one transaction per operation."""

from __future__ import annotations

import sqlite3
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from duly.clock import Clock
from duly.stores.drive import Counted, Lengthy, Operation, Row, Statement
from duly.stores.sqlite.migrate import CREATE
from duly.stores.sqlite.operations import Operations

T = TypeVar("T")

SCHEMA = files("duly.stores.sqlite").joinpath("migrations", "0001_start.sql")


class PlainStore(Operations):
    """Operations on a file, without locks between processes, retries or migrations."""

    def __init__(self, path: Path | str, clock: Clock, *, boot_id: str = "boot-1") -> None:
        super().__init__(clock, boot_id)
        self.connection = sqlite3.connect(path, isolation_level=None, cached_statements=256)
        self.texts: list[str] = []
        """Every statement so far, for tests that look at query plans."""
        self.lengthy: list[str] = []
        """Those of them during which whoever asked does something else."""

    @classmethod
    def create(cls, path: Path | str, clock: Clock) -> PlainStore:
        store = cls(path, clock)
        store.connection.execute("pragma journal_mode = wal")
        store.connection.execute(CREATE)
        store.connection.executescript(SCHEMA.read_text(encoding="utf-8"))
        return store

    def run(self, operation: Operation[T]) -> T:
        self.connection.execute("begin immediate" if operation.writes else "begin")
        try:
            answer = self.perform(operation)
        except BaseException:
            self.connection.execute("rollback")
            raise
        self.connection.execute("commit")
        return answer

    def perform(self, operation: Operation[T]) -> T:
        """In the transaction that is open, whoever opened it."""
        steps = operation.steps()
        try:
            statement = next(steps)
            while True:
                self.texts.append(statement.text)
                if isinstance(statement, Lengthy):
                    self.lengthy.append(statement.text)
                try:
                    rows = self._answer(statement)
                except sqlite3.Error as error:
                    statement = steps.throw(error)
                else:
                    statement = steps.send(rows)
        except StopIteration as stop:
            answer: T = stop.value
            return answer

    def _answer(self, statement: Statement) -> list[Row]:
        cursor = self.connection.execute(statement.text, statement.parameters)
        return [(cursor.rowcount, cursor.lastrowid)] if isinstance(statement, Counted) else cursor.fetchall()

    def close(self) -> None:
        self.connection.close()
