"""What eight threads of one process can have of a SQLite file: commits that they share, and nothing else.

Whoever comes while nobody leads carries all that waits through one transaction and lets the next lead. It
keeps no promise of an engine: no fence, no lock between processes, no error that reaches who caused it.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Any


class Ticket:
    """One row on its way, and the gate at which its thread waits to be told or to lead."""

    __slots__ = ("gate", "is_stored", "values")

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values
        self.is_stored = False
        self.gate = threading.Lock()
        self.gate.acquire()


class SharedCommits:
    """One connection for all threads."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], statement: str) -> None:
        self._connection = connect()
        self._statement = statement
        self._mutex = threading.Lock()
        self._waiting: list[Ticket] = []
        self._has_leader = False

    def put(self, *values: Any) -> None:
        """Durable when it returns."""
        ticket = Ticket(values)
        with self._mutex:
            self._waiting.append(ticket)
            leads, self._has_leader = not self._has_leader, True
        if not leads:
            ticket.gate.acquire()
        if not ticket.is_stored:
            self._lead(ticket)

    def _lead(self, own: Ticket) -> None:
        with self._mutex:
            batch, self._waiting = self._waiting, []
        self._connection.execute("begin immediate")
        self._connection.executemany(self._statement, [ticket.values for ticket in batch])
        self._connection.execute("commit")
        for ticket in batch:
            ticket.is_stored = True
        self._pass_on()
        for ticket in batch:
            if ticket is not own:
                ticket.gate.release()

    def _pass_on(self) -> None:
        with self._mutex:
            self._has_leader = bool(self._waiting)
            if self._has_leader:
                self._waiting[0].gate.release()
