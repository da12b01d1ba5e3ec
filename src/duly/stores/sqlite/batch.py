"""One transaction that carries the operations of several callers.

Each is all or nothing by itself: one that fails is undone alone and told so, the others commit. When
the whole transaction is lost (a full disk), those who were innocent try again one by one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final, Protocol

from duly.errors import StoreUnavailable
from duly.stores.sqlite.connection import Spell, begin_immediate, deadline, pause_briefly, perform
from duly.stores.sqlite.faults import Identity, is_busy
from duly.stores.sqlite.tickets import Ticket

LIMIT: Final = 64
"""Operations in one transaction, so that nobody waits for an endless queue to commit."""


class Queue(Protocol):
    """Where a batch gets its operations from, and puts back those that must try again."""

    def take(self, taken: list[Ticket], *, joins: bool) -> Ticket | None: ...
    def put_back(self, tickets: list[Ticket]) -> None: ...
    def holds(self, ticket: Ticket) -> bool: ...


def settle_rest(taken: list[Ticket], queue: Queue) -> None:
    """After an interrupt: what was not settled will not be. What waits again is none of ours any more."""
    taken[:] = [ticket for ticket in taken if ticket.is_settled or not queue.holds(ticket)]
    for ticket in taken:
        if not ticket.is_settled:
            name = ticket.operation.name
            ticket.settle(StoreUnavailable(f"{name} was undone: the writing thread was interrupted."))


class TransactionLost(Exception):
    """SQLite rolled everything back because of one statement."""


class Batch:
    """From BEGIN to COMMIT. Afterwards every ticket in `taken` has its outcome."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        queue: Queue,
        identity: Identity,
        spell: Spell,
        patience: timedelta,
        taken: list[Ticket],
    ) -> None:
        """What is taken from the queue is in `taken`, whatever interrupts it."""
        self._connection = connection
        self._patience = patience
        self._queue = queue
        self._identity = identity
        self._spell = spell
        self._is_committing = False
        self._is_marked = False
        """A savepoint stands before what the operation in hand has changed."""
        self._kept: list[Ticket] = []
        self.taken = taken
        self.has_committed = False

    def run(self, may_wait: Callable[[], bool]) -> None:
        """Take what is queued, perform it, commit. Raises only what failed before anything was taken."""
        self._identity.verify()
        begin_immediate(self._connection, may_wait)
        try:
            self._fill()
            self._commit()
        except (sqlite3.Error, TransactionLost) as error:
            self._lose(error)
        else:
            self._keep()

    def conclude(self) -> None:
        """Leave nothing open, also when an interrupt came in between. Twice does no more than once."""
        if self._connection.in_transaction:
            self._roll_back()
        elif self._is_committing:
            self._keep()
        settle_rest(self.taken, self._queue)

    def _fill(self) -> None:
        goes_on = True
        taken = self.taken
        while goes_on and len(taken) < LIMIT and (ticket := self._queue.take(taken, joins=bool(taken))):
            goes_on = self._perform(ticket) and not ticket.is_alone

    def _perform(self, ticket: Ticket) -> bool:
        # The first needs no savepoint: undoing it ends the transaction, and the rest starts another.
        operation, is_first = ticket.operation, not self._kept
        self._is_marked = False
        changes = self._connection.total_changes
        if not is_first and not operation.is_light:
            self._mark()
        late = self._mark if operation.is_light and not is_first else None
        cursor = self._connection.cursor()
        try:
            ticket.value = perform(cursor, operation, self._spell, late, ticket.meanwhile)
        except BaseException as error:
            cursor.close()  # a statement in progress would keep everybody from committing
            if not isinstance(error, Exception):
                raise
            ticket.settle(error)
            return self._undo(changes, is_first=is_first)
        if self._is_marked:
            self._connection.execute("RELEASE one")
        self._kept.append(ticket)
        return True

    def _mark(self) -> None:
        self._connection.execute("SAVEPOINT one")
        self._is_marked = True

    def _undo(self, changes: int, *, is_first: bool) -> bool:
        if is_first:
            self._roll_back()
            return False
        if not self._connection.in_transaction:
            raise TransactionLost
        if self._is_marked:
            self._connection.execute("ROLLBACK TO one")
            self._connection.execute("RELEASE one")
        elif self._connection.total_changes != changes:
            raise TransactionLost  # a statement that was to be the only one was followed by an error
        return True

    def _commit(self) -> None:
        may_wait = deadline(self._patience)
        while self._is_open():
            self._is_committing = True
            try:
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                self._is_committing = False
                # With a rollback journal a reader keeps the commit waiting, and the transaction stays open.
                if not (is_busy(error) and self._is_open() and may_wait()):
                    raise
                pause_briefly()

    def _keep(self) -> None:
        error = self._misplaced() if self._kept else None
        for ticket in self._kept:
            ticket.settle(error)
        self.has_committed = bool(self._kept)
        self._is_committing = False

    def _misplaced(self) -> StoreUnavailable | None:
        """An acknowledged write is in the file that the path names, not in one that was taken away."""
        try:
            self._identity.verify()
        except StoreUnavailable as error:
            return error
        return None

    def _lose(self, error: Exception) -> None:
        self._roll_back()
        if not isinstance(error, TransactionLost) and (len(self._kept) == 1 or is_busy(error)):
            for ticket in self._kept:
                ticket.settle(error)
            return
        for ticket in self._kept:
            ticket.is_alone = True
        self._queue.put_back(self._kept)  # at no moment are they neither there nor here

    def _is_open(self) -> bool:
        return self._connection.in_transaction

    def _roll_back(self) -> None:
        if self._is_open():
            with suppress(sqlite3.Error):  # a disk that fails here has failed before, and that error is told
                self._connection.execute("ROLLBACK")
