"""Transactions on SQLite, on handles kept for bodies alone.

A transaction begins at the body's first statement, with the write lock: SQLite has one writer at a time, and
a body that wrote without its turn would starve or be starved.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from contextlib import suppress
from datetime import timedelta
from sys import getrefcount
from typing import Any, Final, TypeVar

from duly.errors import LeaseLost, TransactionEnded
from duly.stores.contract import Settlement
from duly.stores.drive import Operation
from duly.stores.sqlite import SqliteStore
from duly.stores.sqlite.connection import abandon, connect, deadline, pause_briefly, perform
from duly.stores.sqlite.faults import Identity, explained, is_busy
from duly.stores.sqlite.journal import COMMITS_UNSEEN
from duly.stores.sqlite.turns import GaveUp, Line, Turn, holds_here
from duly.transactions.contract import UNSHIELDED, CommitUnknown, Shield
from duly.transactions.sqlite_wires import BodyConnection, guard
from duly.transactions.words import ABANDONED, ENDED

T = TypeVar("T")

# The texts differ from what a body would write, because statements are kept prepared by their text.
BEGIN: Final = "BEGIN IMMEDIATE /* duly */"
COMMIT: Final = "COMMIT /* duly */"
ROLLBACK: Final = "ROLLBACK /* duly */"
SHELF: Final = 4


class SqliteTransaction:
    """One run's transaction."""

    is_borrowed = False

    def __init__(self, source: SqliteSource, connection: BodyConnection, shield: Shield) -> None:
        self._source = source
        self._shield = shield
        self._connection = connection
        self._turn = Turn(source.line)
        self._is_abandoned = False
        self._count: int | None = None
        self.has_begun = False
        self.is_cut_off = False
        connection.transaction = self

    @property
    def connection(self) -> BodyConnection:
        if self._count is None:
            self._count = getrefcount(self._connection)
        return self._connection

    @property
    def _is_held_on_to(self) -> bool:
        """The body has left a reference to it, and might write into somebody else's transaction."""
        return self._count is not None and getrefcount(self._connection) > self._count

    @property
    def turn(self) -> Turn:
        """The right to write."""
        return self._turn

    @property
    def held(self) -> float:
        return self._turn.held

    def enter(self) -> None:
        """Before each statement: begin with the first, and notice if somebody ended it since."""
        if self._connection.in_transaction and self.has_begun:
            return
        if self.has_begun:
            raise TransactionEnded(ENDED)
        self._begin()

    def _begin(self) -> None:
        """Under the shield: of a turn that was taken by half, nobody knows what to give back."""
        self._shield(self._take_turn)
        if not self.has_begun:
            raise LeaseLost(ABANDONED)

    def _take_turn(self) -> None:
        if not self._is_wanted():
            return
        try:
            self._turn.take(self._is_wanted)
            self._source.identity.verify()
            while not self._has_lock():
                pause_briefly()
        except GaveUp:
            self._turn.end()  # the body may go on for long, and others want their turn
            return
        except sqlite3.Error as error:
            self.is_cut_off = True
            raise explained(error, self._source.path, "begin a transaction") from error
        self.has_begun = True
        holds_here(self._turn)

    def _has_lock(self) -> bool:
        """Others who know nothing of turns may hold SQLite's own lock; they are waited for."""
        try:
            self._connection.say(BEGIN)
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            if not self._is_wanted():
                raise GaveUp from error
        return self._connection.in_transaction

    def _is_wanted(self) -> bool:
        return not self._is_abandoned and not self._shield.is_struck

    def run(self, operation: Operation[T]) -> T:
        self.enter()
        self._execute("SAVEPOINT duly_call")
        try:
            value = self._perform(operation)
        except BaseException:
            if self._connection.in_transaction:
                self._execute("ROLLBACK TO duly_call")
                self._execute("RELEASE duly_call")
            raise
        self._execute("RELEASE duly_call")
        return value

    def finish(self, worker: str, settlement: Settlement) -> bool:
        if not self._connection.in_transaction:
            raise TransactionEnded(ENDED)
        if not self._perform(self._source.finishing(settlement)):
            return False
        self.commit()
        return True

    def settle(self, operation: Operation[T]) -> T:
        if not self._connection.in_transaction:
            raise TransactionEnded(ENDED)
        return self._perform(operation)

    def _perform(self, operation: Operation[T]) -> T:
        theirs, self._connection.text_factory = self._connection.text_factory, str
        try:
            return perform(self._connection.ours(), operation, self._source.spell)
        except sqlite3.Error as error:
            raise explained(error, self._source.path, operation.name) from error
        finally:
            self._connection.text_factory = theirs

    def _execute(self, text: str) -> None:
        self._connection.ours().execute(text)

    def commit(self) -> None:
        may_wait = deadline(self._source.patience)
        while True:
            try:
                self._connection.say(COMMIT)
                break
            except sqlite3.Error as error:
                if not self._connection.in_transaction:
                    raise CommitUnknown(str(error)) from error
                # With a rollback journal a reader keeps the commit waiting.
                if not is_busy(error) or not may_wait():
                    raise
            pause_briefly()
        self._source.after_commit()
        self._turn.end()  # at once: on a loop the rest may have to wait for who wants to write

    def roll_back(self) -> None:
        if self._connection.in_transaction:
            with suppress(sqlite3.Error):  # then the handle is closed below, and that rolls back
                self._connection.say(ROLLBACK)
                self._turn.end()

    def give_back(self) -> None:
        is_fit = not self._is_held_on_to  # asked before we hold it ourselves
        try:
            self._source.take_back(self._connection, is_fit=is_fit)
        finally:
            self._turn.end()

    def abandon(self) -> None:
        self._is_abandoned = True


class SqliteSource:
    """Handles for bodies. Only one of them can be in a transaction at a time; the others wait for it."""

    is_ambient = False

    def __init__(self, store: SqliteStore) -> None:
        self.path = store.path
        self.spell = store.spell
        self.patience: timedelta = store.patience
        self.line = Line(store.path)
        self.identity = Identity(store.path)
        self._store = store
        self._lock = threading.Lock()
        self._idle: list[BodyConnection] = []
        self._lent: set[BodyConnection] = set()
        self._commits = 0
        """Since the store was last told of any."""
        self._is_closed = False
        _sources.add(self)

    def lend(self, run_id: str, shield: Shield = UNSHIELDED) -> SqliteTransaction:
        """A handle whose transaction begins with the first statement."""
        self._store.open()
        with self._lock:  # opening too: at a fork every open handle must be known
            connection = self._idle.pop() if self._idle else self._open()
            self._lent.add(connection)
        return SqliteTransaction(self, connection, shield)

    def finishing(self, settlement: Settlement) -> Operation[bool]:
        """What ends a run that is simply done."""
        return self._store.finish(settlement)

    def after_commit(self) -> None:
        """Nobody else sees to the log where bodies write more than the engine: it would grow, and be slow.

        It is looked at every so many commits, so they are told together. Whoever calls has the turn.
        """
        self._commits += 1
        if self._commits < COMMITS_UNSEEN:
            return
        commits, self._commits = self._commits, 0
        with suppress(sqlite3.Error):  # what was committed stays in the log, for others to write back
            self._store.after_commit(commits)

    async def alend(self, run_id: str) -> Any:
        """The same for an event loop, in a thread of its own."""
        from duly.transactions.sqlite_async import AsyncSqliteTransaction

        return AsyncSqliteTransaction(self.lend(run_id))

    def _open(self) -> BodyConnection:
        try:
            connection = connect(self._store.address, factory=BodyConnection, isolation_level="IMMEDIATE")
        except sqlite3.Error as error:
            raise explained(error, self.path, "open") from error
        assert isinstance(connection, BodyConnection)
        guard(connection)
        return connection

    def take_back(self, connection: BodyConnection, *, is_fit: bool) -> None:
        """Keep it for the next run, as it was; close what is not as it should be."""
        connection.transaction = None
        connection.row_factory, connection.text_factory = None, str
        with self._lock:
            if connection not in self._lent:
                return  # said twice, or in a process forked from where it was lent
            self._lent.discard(connection)
            is_fit = is_fit and not connection.in_transaction
            if is_fit and not self._is_closed and len(self._idle) < SHELF:
                self._idle.append(connection)
            else:
                connection.shut()

    def close(self) -> None:
        """Close what is not lent, and keep nothing from here on."""
        with self._lock:
            self._is_closed = True
            self._rest()
        self.line.close()

    def _rest(self) -> None:
        while self._idle:
            self._idle.pop().shut()

    # Forking: SQLite cannot serve a parent and a child through one handle, see connection.py of the store.

    def hold_still(self) -> None:
        """Before a fork: have no handle open that nobody uses, and let none come or go."""
        self._lock.acquire()
        self._rest()

    def go_on(self) -> None:
        """After a fork, in the parent."""
        self._lock.release()

    def forget(self) -> None:
        """In a forked child: what the parent had lent to a body stays the parent's, and the file with it."""
        self._lock = threading.Lock()
        self.line.forget()
        self.line = Line(self.path)
        if self._lent:
            for connection in self._lent:
                abandon(connection)
            self._lent.clear()
            self._store.refuse(
                f"{self.path} was in use by a task's transaction when process {os.getppid()} forked this "
                "one; SQLite cannot serve both. Start the process by spawning instead."
            )


_sources: weakref.WeakSet[SqliteSource] = weakref.WeakSet()


_still: list[SqliteSource] = []
"""Those whose lock the fork holds: one that is made meanwhile has none to let go of."""


def _before_fork() -> None:
    for source in list(_sources):
        source.hold_still()
        _still.append(source)


def _after_fork_in_parent() -> None:
    while _still:
        _still.pop().go_on()


def _after_fork_in_child() -> None:
    _still.clear()
    for source in list(_sources):
        source.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )
