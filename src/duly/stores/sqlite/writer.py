"""Group commit without a thread of its own, most of the time.

Threads that want to write queue up. The first becomes the leader and carries everything queued through
one transaction, then passes the lead on; a lone caller commits in its own thread, with no hop. Only when
another process is writing, or for asyncio, a background thread leads: it can wait in the kernel's queue
for the file lock, which gives processes their turn in order and which no time-out can interrupt, while
the callers wait for their tickets and may give up.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

from duly.errors import StoreBusy, StoreUnavailable
from duly.stores.drive import Operation
from duly.stores.sqlite.batch import Batch, settle_rest
from duly.stores.sqlite.company import Company
from duly.stores.sqlite.connection import Spell, deadline, perform_alone
from duly.stores.sqlite.faults import Identity, explained, is_busy
from duly.stores.sqlite.filelock import FileLock, busy_sentence
from duly.stores.sqlite.pen import Pen
from duly.stores.sqlite.tickets import TaskTicket, ThreadTicket, Ticket, answer_all

T = TypeVar("T")

log = logging.getLogger("duly.sqlite")

IDLE: Final = 10.0
"""Seconds after which the background thread goes away; the next need starts another."""
LOOK_UP: Final = 0.05
"""Seconds after which whoever waits looks for himself: those who wake each other may be interrupted."""
BACKGROUND: Final = object()
"""The background thread, as the one who leads."""
GONE: Final = object()
"""Nobody leads any more: the writer is closed."""


class Writer:
    """The only way this process writes to the file, apart from callers' own transactions."""

    def __init__(
        self,
        pen: Pen,
        lock: FileLock,
        identity: Identity,
        spell: Spell,
        path: str,
        patience: timedelta,
    ) -> None:
        self._pen = pen
        self._lock = lock
        self._identity = identity
        self._spell = spell
        self._path = path
        self._patience = patience
        self._mutex = threading.Lock()
        self._queue: deque[Ticket] = deque()
        self._company = Company(self._queue, self._mutex)
        self._leader: object = None
        """Who may write: a ticket, a lone operation, the background thread. None but they can give the lead
        up; so what an interrupt keeps from being done is done by whoever tidies up after it."""
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._has_warned = False
        """That the background thread cannot be started."""
        self._is_summoned = False
        self._summons = threading.Lock()
        self._summons.acquire()

    def write(self, operation: Operation[T]) -> T:
        """Perform and commit, alone or with others; the caller's thread waits."""
        if operation.is_light and not self._company.is_near and (written := self._write_alone(operation)):
            return written[0]
        ticket = ThreadTicket(operation)
        until = time.monotonic() + self._patience.total_seconds()
        try:
            if self._join(ticket):
                self._lead_here(ticket, until)
            if operation.meanwhile is not None and not ticket.is_settled:
                operation.meanwhile()  # another thread performs it, or waits for another process
            while not self._is_answered(ticket, until):
                self._lead_here(ticket, until)
        except BaseException:
            self._leave(ticket)
            raise
        outcome: T = self._outcome(ticket)
        return outcome

    async def awrite(self, operation: Operation[T]) -> T:
        """The same for a task; the event loop goes on meanwhile."""
        ticket = TaskTicket(operation, asyncio.get_running_loop())
        until = time.monotonic() + self._patience.total_seconds()
        try:
            if self._join(ticket):
                self._leave_to_background(ticket)
            while not (ticket.answered.done() or ticket.is_settled):
                await asyncio.wait({ticket.answered}, timeout=self._pause(ticket, until))
                if self._takes_over(ticket):
                    self._leave_to_background(ticket)
        except BaseException:
            self._leave(ticket)
            raise
        outcome: T = self._outcome(ticket)
        return outcome

    def _leave(self, ticket: Ticket) -> None:
        self._withdraw(ticket)
        self._give_back(ticket)

    def close(self) -> None:
        """Take no more, and let what is queued end, unless it would not in time."""
        with self._mutex:
            self._is_closed = True
        may_wait = deadline(self._patience)
        while self._leader not in (None, GONE) and may_wait():
            time.sleep(0.001)
        self._retire()
        try:
            if self.has_ended and self._lock.try_acquire():
                self._pen.write_back()
                self._lock.release()
        finally:
            self._pen.close()

    @property
    def has_ended(self) -> bool:
        """Whether nobody writes any more, nor will."""
        return self._leader is GONE

    @property
    def queued(self) -> int:
        """Operations that wait for a batch."""
        return len(self._queue)

    # The queue, as a batch sees it.

    def take(self, taken: list[Ticket], *, joins: bool) -> Ticket | None:
        """The next operation; one that must be alone does not join others."""
        with self._mutex:
            if not self._queue or (joins and self._queue[0].is_alone):
                return None
            taken.append(self._queue[0])  # at no moment is it neither here nor there
            return self._queue.popleft()

    def put_back(self, tickets: list[Ticket]) -> None:
        with self._mutex:
            self._queue.extendleft(reversed(tickets))

    def holds(self, ticket: Ticket) -> bool:
        """Whether it waits for a batch."""
        with self._mutex:
            return ticket in self._queue

    # Alone.

    def _write_alone(self, operation: Operation[T]) -> tuple[T] | None:
        """What a lone caller asks for, in one statement without a batch around it; None to go the usual way.

        So it does after an error, too: with the same id, nothing is stored twice.
        """
        try:
            with self._mutex:
                if self._leader is not None or self._is_closed:
                    return None
                self._leader = operation
            written = self._written_alone(operation) if self._lock.try_acquire() else None
            self._give_back(operation)
            return written
        except BaseException:  # also where it was being given back
            self._give_back(operation)
            raise

    def _written_alone(self, operation: Operation[T]) -> tuple[T] | None:
        written = None
        with self._pen.in_hand:
            try:
                connection = self._pen.handle
                self._identity.verify()
                written = perform_alone(connection, operation, self._spell)
                if written:
                    self._pen.after_commit()
            except (sqlite3.Error, StoreUnavailable):
                pass  # what was committed is, and stays in the log for others to write back
        if written:
            self._identity.verify()
        return written

    # Leading.

    def _join(self, ticket: Ticket) -> bool:
        """Queue up; true when nobody leads, so that the caller must see to it."""
        with self._mutex:
            if self._is_closed:
                raise StoreUnavailable(
                    f"{self._path} was closed while {ticket.operation.name} waited. Open it again."
                )
            self._queue.append(ticket)
            self._company.join()
            if self._leader is None:
                self._leader = ticket
            return self._leader is ticket

    def _lead_here(self, ticket: ThreadTicket, until: float) -> None:
        """Lead in this thread if no other process is writing, else leave it to the background thread."""
        if ticket.operation.is_light:
            self._company.wait()
        if not self._lock.try_acquire():
            self._leave_to_background(ticket)
            return

        def may_wait() -> bool:
            ticket.pass_time()  # a connection that is not ours is writing, perhaps for long
            return time.monotonic() < until

        ticket.meanwhile = ticket.operation.meanwhile
        try:
            self._lead(ticket, may_wait)
        finally:
            ticket.meanwhile = None  # whoever leads next may be another thread
            self._give_back(ticket)

    def _lead(self, own: Ticket | None, may_wait: Callable[[], bool]) -> None:
        """Carry one batch. The file lock is held, and let go at the end."""
        told: list[Ticket] = []
        try:
            if self._queue:  # those who asked may have given up meanwhile
                with self._pen.in_hand:
                    self._carry(self._pen.handle, own, may_wait, told)
        except (sqlite3.Error, StoreUnavailable) as error:
            # Nothing can be written at all, so nobody need wait for it.
            while ticket := self.take(told, joins=False):
                ticket.settle(error)
        finally:
            self._lock.release()
            settle_rest(told, self)
            answer_all(told, own)

    def _carry(
        self,
        connection: sqlite3.Connection,
        own: Ticket | None,
        may_wait: Callable[[], bool],
        told: list[Ticket],
    ) -> None:
        batch = Batch(connection, self, self._identity, self._spell, self._patience, told)
        try:
            self._run(batch, own, may_wait, told)
            batch.conclude()
        except BaseException:  # also where it was being concluded
            batch.conclude()
            raise
        self._company.part(sum([ticket.operation.is_light for ticket in told]))

    def _run(
        self, batch: Batch, own: Ticket | None, may_wait: Callable[[], bool], told: list[Ticket]
    ) -> None:
        try:
            batch.run(may_wait)
            if batch.has_committed:
                self._pen.after_commit()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            if own is not None and self._withdraw(own):
                # Only the leader's time is over; the others still have theirs.
                own.settle(error)
                told.append(own)

    def _give_back(self, leader: object) -> None:
        """Let go of the file and give the lead to the longest waiting, unless it is somebody else's now."""
        if self._leader is not leader:
            return
        self._lock.release()  # an interrupt may have hidden whether we had it
        with self._mutex:
            heir = self._queue[0] if self._queue else None
            if heir is None:
                self._leader = None
            elif isinstance(heir, ThreadTicket):
                self._leader = heir
                heir.gate.release()
            else:
                self._call_background()

    def _leave_to_background(self, leader: object) -> None:
        with self._mutex:
            if self._leader is leader:
                self._call_background()

    # Waiting.

    def _is_answered(self, ticket: ThreadTicket, until: float) -> bool:
        """Wait at the gate; false when it opened to make this thread the leader."""
        while not ticket.gate.acquire(timeout=self._pause(ticket, until)):
            if ticket.is_settled:  # whoever was to open the gate has been struck down
                break
            if self._takes_over(ticket):
                return False
        if ticket.behind is not None:
            ticket.behind.answer()
        return ticket.is_settled

    def _takes_over(self, ticket: Ticket) -> bool:
        """Whether nobody leads, as happens where no thread could be had for the background: then it does."""
        with self._mutex:
            if self._leader is not None or ticket not in self._queue:
                return False
            self._leader = ticket
            return True

    def _pause(self, ticket: Ticket, until: float) -> float:
        """How long to wait before looking up; raises where the time is over and nothing has begun."""
        left = until - time.monotonic()
        if left <= 0:
            self._give_up(ticket)
        return min(left, LOOK_UP) if left > 0 else LOOK_UP

    def _give_up(self, ticket: Ticket) -> None:
        """Raise if the operation has not begun; one that has is waited for, because its outcome counts."""
        with self._mutex:
            if ticket not in self._queue or self._leader is ticket:
                return
            self._queue.remove(ticket)
        raise StoreBusy(busy_sentence(self._lock.path, self._patience))

    def _withdraw(self, ticket: Ticket) -> bool:
        with self._mutex:
            if ticket not in self._queue:
                return False
            self._queue.remove(ticket)
            return True

    def _outcome(self, ticket: Ticket) -> Any:
        if ticket.error is None:
            return ticket.value
        cause = ticket.error
        if isinstance(cause, sqlite3.Error):
            self._identity.verify()  # a file that was taken away explains every error
        shown = explained(cause, self._path, ticket.operation.name)
        raise shown from (None if shown is cause else cause)

    # The background thread.

    def _call_background(self) -> None:
        """Let the background thread lead; under the mutex."""
        if self._thread is None and not self._have_thread():
            self._leader = None  # whoever looks up takes over
            return
        self._leader, self._is_summoned = BACKGROUND, True
        self._summons.release()

    def _have_thread(self) -> bool:
        """Start it. That a system has no more threads for a moment is no fault of whoever leads now."""
        thread = threading.Thread(target=self._write_in_background, name="duly-sqlite-writer", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._has_warned:
                log.warning("no thread could be started to write to %s; it is tried again", self._path)
            self._has_warned = True
            return False
        self._has_warned = False
        self._thread = thread
        return True

    def _write_in_background(self) -> None:
        while self._is_needed():
            self._lock.acquire()
            try:
                self._lead(None, lambda: bool(self._queue))
            finally:
                self._pass_on_in_background()

    def _pass_on_in_background(self) -> None:
        """Keep the lead while anybody waits: handing it to a thread would only bring it back."""
        with self._mutex:
            if self._queue:
                self._is_summoned = True
                self._summons.release()
            else:
                self._leader = None

    def _is_needed(self) -> bool:
        while not self._summons.acquire(timeout=IDLE):
            with self._mutex:
                if not self._is_summoned:
                    self._thread = None
                    return False
        with self._mutex:
            self._is_summoned = False
            return self._leader is not GONE  # what was queued before the writer was closed still ends

    def _retire(self) -> None:
        """Send the background thread home, unless it is still waiting for another process."""
        with self._mutex:
            if self._leader is None:
                self._leader = GONE
                self._summons.release()
