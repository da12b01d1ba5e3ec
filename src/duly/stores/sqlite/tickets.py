"""One operation on its way to the file, and whoever waits for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from duly.stores.drive import Operation


class Ticket:
    """One operation on its way, and what became of it."""

    def __init__(self, operation: Operation[Any]) -> None:
        self.operation = operation
        self.value: Any = None
        self.error: Exception | None = None
        self.is_settled = False
        self.meanwhile: Callable[[], object] | None = None
        """What whoever asked does while it is performed: only in the thread that asked."""
        self.is_alone = False
        """It lost a transaction it shared, and now gets one of its own."""

    def pass_time(self) -> None:
        """Have whoever asked do something else, once."""
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()

    def settle(self, error: Exception | None) -> None:
        self.error = error
        self.is_settled = True

    def answer(self) -> None:
        """Wake whoever waits for this operation."""
        raise NotImplementedError


class ThreadTicket(Ticket):
    """A thread waits at the gate, to be answered or to lead."""

    def __init__(self, operation: Operation[Any]) -> None:
        super().__init__(operation)
        self.behind: ThreadTicket | None = None
        """Whom to wake when it has been woken itself."""
        self.gate = threading.Lock()
        self.gate.acquire()

    def answer(self) -> None:
        self.gate.release()


class TaskTicket(Ticket):
    """A task of an event loop waits; it can never lead, because leading blocks."""

    def __init__(self, operation: Operation[Any], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(operation)
        self._loop = loop
        self.answered: asyncio.Future[None] = loop.create_future()

    def answer(self) -> None:
        with suppress(RuntimeError):  # the loop has closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        if not self.answered.done():
            self.answered.set_result(None)


def answer_all(told: list[Ticket], own: Ticket | None) -> None:
    """The first thread is woken, and each wakes the next.

    Woken together they would all wait for the interpreter, and whoever has it be disturbed by each of them.
    """
    behind: ThreadTicket | None = None
    for ticket in reversed(told):
        if isinstance(ticket, ThreadTicket) and ticket is not own:
            ticket.behind, behind = behind, ticket
        else:
            ticket.answer()
    if behind is not None:
        behind.answer()
