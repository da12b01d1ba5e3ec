"""Opening handles on the file, and performing an operation on one.

Writing goes through a single handle per process; reading borrows one from a small shelf, so that no
handle is ever used by two threads at once and no thread owns one after its work is done. None may be open
while the process forks: SQLite keeps a note of the locks on each file in memory, and a child that
inherits the note believes to hold locks it does not have, on handles it opens itself too.
"""

from __future__ import annotations

import ctypes
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, TypeVar

from duly.ids import new_nonce
from duly.stores.drive import Counted, Lengthy, Operation, Row, Statement, Trial
from duly.stores.sqlite.address import Address, Durability
from duly.stores.sqlite.faults import is_busy
from duly.stores.sqlite.journal import SIZE_KEPT

T = TypeVar("T")

Spell = Callable[[str], str]

DEFAULT_NAMESPACE: Final = "duly"
SHORT_WAIT: Final = 0.1
"""What SQLite waits by itself; beyond that we wait, with a deadline and without its growing naps."""
SHELF: Final = 4
_PREFIX: Final = re.compile(r"\bduly_")


def connect(
    address: Address,
    *,
    creates: bool = False,
    reads_only: bool = False,
    factory: type[sqlite3.Connection] = sqlite3.Connection,
    isolation_level: Literal["IMMEDIATE"] | None = None,
) -> sqlite3.Connection:
    """A handle set up our way. Only the first opening may create the file: one that was deleted stays so."""
    connection = sqlite3.connect(
        f"{Path(address.path).as_uri()}?mode={'rwc' if creates else 'rw'}",
        uri=True,
        timeout=SHORT_WAIT,
        isolation_level=isolation_level,
        factory=factory,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        _set_up(connection, address.durability, reads_only=reads_only)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection, durability: Durability, *, reads_only: bool) -> None:
    for setting in (
        f"synchronous={durability.value}",
        "wal_autocheckpoint=0",
        f"journal_size_limit={SIZE_KEPT}",
        "temp_store=memory",
        "cache_size=-8000",
        f"query_only={'on' if reads_only else 'off'}",
    ):
        connection.execute(f"PRAGMA {setting}")


def spelling(namespace: str) -> Spell:
    """How statements are written for a namespace: table names begin with it instead of `duly_`."""
    if namespace == DEFAULT_NAMESPACE:
        return lambda text: text

    @lru_cache(maxsize=1024)
    def spell(text: str) -> str:
        return _PREFIX.sub(f"{namespace}_", text)

    return spell


def perform(
    cursor: sqlite3.Cursor,
    operation: Operation[T],
    spell: Spell,
    before_second: Callable[[], None] | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> T:
    """Answer each statement an operation asks for with its rows. The transaction is the caller's."""
    steps = operation.steps()
    try:
        statement = next(steps)
        while True:
            if meanwhile is not None and isinstance(statement, Lengthy):
                meanwhile()  # not before: what it starts would keep the short statements waiting
                meanwhile = None
            try:
                rows = _answer(cursor, spell(statement.text), statement)
            except sqlite3.Error as error:
                if not isinstance(statement, Trial):
                    raise
                statement = steps.throw(error)
            else:
                statement = steps.send(rows)
            if before_second is not None:
                before_second()
                before_second = None
    except StopIteration as stop:
        result: T = stop.value
        return result


def perform_alone(connection: sqlite3.Connection, operation: Operation[T], spell: Spell) -> tuple[T] | None:
    """A light operation as one statement that commits itself; None where that changed nothing."""
    steps = operation.steps()
    statement = next(steps)
    cursor = connection.execute(spell(statement.text), statement.parameters)
    if not cursor.rowcount:
        steps.close()
        return None
    try:
        steps.send([(cursor.rowcount, cursor.lastrowid)])
    except StopIteration as stop:
        return (stop.value,)
    raise AssertionError(f"{operation.name} is not light: it goes on after its first statement")


def _answer(cursor: sqlite3.Cursor, text: str, statement: Statement) -> list[Row]:
    cursor.execute(text, statement.parameters)
    return [(cursor.rowcount, cursor.lastrowid)] if type(statement) is Counted else cursor.fetchall()


def pause_briefly() -> None:
    """Between two tries for a lock: 1 to 5 ms, drawn so that processes do not march in step."""
    time.sleep(0.001 + 0.004 * int(new_nonce()[:2], 16) / 255)


def begin_immediate(connection: sqlite3.Connection, is_wanted: Callable[[], bool]) -> None:
    """Take the write lock before reading: a read transaction that turns into a writing one fails at once."""
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or not is_wanted():
                raise
        pause_briefly()


def deadline(patience: timedelta) -> Callable[[], bool]:
    """True until the time is over."""
    until = time.monotonic() + patience.total_seconds()
    return lambda: time.monotonic() < until


class Readers:
    """Handles for reading, lent to one thread at a time."""

    def __init__(self, address: Address, spell: Spell) -> None:
        self._address = address
        self._spell = spell
        self._idle: list[sqlite3.Connection] = []
        self._lent: set[sqlite3.Connection] = set()
        self._is_resting = False
        self._is_closed = False
        self._changed = threading.Condition()

    def read(self, operation: Operation[T], patience: timedelta) -> T:
        """Perform on one consistent state of the file, which is let go at once: a held one pins the log."""
        is_wanted = deadline(patience)
        while True:
            try:
                with (
                    self._borrowed() as connection
                ):  # opening a handle reads the file, and may find it locked
                    return self._read_once(connection, operation)
            except sqlite3.OperationalError as error:
                if not is_busy(error) or not is_wanted():
                    raise
            pause_briefly()

    def close(self) -> None:
        """Close what is idle; what is lent closes when it comes back."""
        with self._changed:
            self._is_closed = True
            self._close_idle()

    def rest(self, patience: timedelta) -> bool:
        """Have no handle open until `resume`; false if a reader would not finish in time."""
        with self._changed:
            self._is_resting = True
            self._close_idle()
            return self._changed.wait_for(lambda: not self._lent, patience.total_seconds())

    def resume(self) -> None:
        with self._changed:
            self._is_resting = False
            self._changed.notify_all()

    def abandon(self) -> None:
        """See the function of that name."""
        for connection in (*self._idle, *self._lent):
            abandon(connection)

    def _read_once(self, connection: sqlite3.Connection, operation: Operation[T]) -> T:
        connection.execute("BEGIN")
        try:
            return perform(connection.cursor(), operation, self._spell)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    @contextmanager
    def _borrowed(self) -> Generator[sqlite3.Connection, None, None]:
        connection = self._take()
        is_sound = False
        try:
            yield connection
            is_sound = True
        finally:
            self._give_back(connection, is_sound=is_sound)

    def _take(self) -> sqlite3.Connection:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_resting)
            connection = self._idle.pop() if self._idle else connect(self._address, reads_only=True)
            self._lent.add(connection)
            return connection

    def _give_back(self, connection: sqlite3.Connection, *, is_sound: bool) -> None:
        # A handle that met an error is not lent again: the next reader looks at the file afresh.
        with self._changed:
            self._lent.discard(connection)
            if is_sound and not self._is_resting and not self._is_closed and len(self._idle) < SHELF:
                self._idle.append(connection)
            else:
                connection.close()
            self._changed.notify_all()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


def abandon(connection: sqlite3.Connection) -> None:
    """Leave an inherited handle alone for good, even at the interpreter's end.

    Closing it in a forked child would roll back the parent's transaction through shared memory.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
