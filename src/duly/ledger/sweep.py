"""Handing over again what got lost, and clearing away what is done. Any process may sweep, and all may.

Each hand-over is reserved by a conditional write that one sweeper wins, and pushes the next one into the
future before anything is sent: however many sweep, and however slow the queue is, there is no storm.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

from duly.errors import DefinitionError, StoreError
from duly.ids import spread
from duly.ledger.operations import Operations
from duly.ledger.terms import Terms
from duly.ledger.values import Due, HandOver, Swept
from duly.stores.drive import Operation
from duly.stores.tables.instants import duration

log = logging.getLogger("duly.ledger")

T = TypeVar("T")

BATCH: Final = 100
DELETED_AT_ONCE: Final = 500
JITTER: Final = 0.1

Deliver = Callable[[HandOver], Any]


class Run(Protocol):
    """Performs an operation in a short transaction."""

    def __call__(self, operation: Operation[T], /) -> T: ...


class Broom:
    """What a sweep does, once."""

    def __init__(self, run: Run, operations: Operations, terms: Terms) -> None:
        self._run = run
        self._operations = operations
        self._terms = terms

    def sweep(self, deliver: Deliver | None, limit: int) -> Swept:
        """Hand over what is due, up to `limit`; then prune."""
        self._until_few(lambda: self._operations.tidy(DELETED_AT_ONCE))
        handed_over = failed = exhausted = 0
        for due in self._all_due(limit):
            if due.lease_left > 0:  # only a stepped clock makes it due: it is being run
                self._run(self._operations.reserve(due, duration(due.lease_left)))
            elif due.hand_overs >= self._terms.max_hand_overs:
                exhausted += self._exhaust(due)
            else:
                went = self._hand_over(due, deliver)
                handed_over += went is True
                failed += went is False
        return Swept(handed_over, failed, exhausted, self._prune())

    def _all_due(self, limit: int) -> Iterator[Due]:
        """By place, not "the first hundred": one that cannot be handed over hides no other."""
        after = (0, "")
        while limit > 0 and (found := self._run(self._operations.due(after, min(limit, BATCH)))):
            yield from found
            after = (found[-1].next_at, found[-1].id)
            limit -= len(found)

    def _hand_over(self, due: Due, deliver: Deliver | None) -> bool | None:
        """None: another sweeper has it. False: the queue did not take it, and it will be tried again."""
        if deliver is None:
            raise DefinitionError(
                f"Receipt {due.id!r} of {due.name!r} must be handed over, and nobody said how. "
                "Register it with @ledger.hand_over, or pass hand_over= to sweep()."
            )
        reserved = self._run(self._operations.reserve(due, self._terms.lost_after))
        if reserved is None:
            return None
        return self.send(HandOver(due.id, due.name, due.payload, due.hand_overs + 1), reserved, deliver)

    def send(self, order: HandOver, reserved: int, deliver: Deliver) -> bool:
        """Hand over what is reserved; only what a queue has taken is counted."""
        try:
            deliver(order)
        except Exception:
            log.exception(
                "receipt %s of %s could not be handed over; the next try comes after %s",
                order.id,
                order.name,
                self._terms.lost_after,
            )
            return False
        self._run(self._operations.handed_over(order.id, reserved, self._terms.wait_after(order.number)))
        if order.number > 1:
            log.info("receipt %s of %s was handed over again (%d)", order.id, order.name, order.number)
        return True

    def _exhaust(self, due: Due) -> bool:
        is_exhausted = self._run(self._operations.exhaust(due))
        if is_exhausted:
            log.error(
                "receipt %s of %s was handed over %d times and never completed: it waits for "
                "ledger.retry(%r) or a late delivery",
                due.id,
                due.name,
                due.hand_overs,
                due.id,
            )
        return is_exhausted

    def _prune(self) -> int:
        return sum(
            self._until_few(lambda kind=kind: self._operations.prune(kind, DELETED_AT_ONCE))  # type: ignore[misc]
            for kind in ("completed", "made")
        )

    def _until_few(self, make: Callable[[], Operation[int]]) -> int:
        """In small transactions, until one finds less than it could take."""
        total = 0
        while True:
            number = self._run(make())
            total += number
            if number < DELETED_AT_ONCE:
                return total


class Sweeper:
    """Sweeps again and again, in a thread of its own, until it is stopped. A context manager too."""

    def __init__(self, sweep: Callable[[], Swept], interval: timedelta) -> None:
        self._sweep = sweep
        self._interval = interval
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="duly-ledger-sweep", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the sweep under way, then end."""
        self._is_over.set()
        self._thread.join()

    def __enter__(self) -> Sweeper:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _work(self) -> None:
        while not self._is_over.is_set():
            sweep_calmly(self._sweep)
            self._is_over.wait(pause(self._interval))


def sweep_calmly(sweep: Callable[[], Swept]) -> None:
    """An outage is a line in the log; the next sweep tries again."""
    try:
        sweep()
    except StoreError as error:
        log.warning("the sweep could not finish: %s", error)
    except Exception:
        log.exception("the sweep failed")


def pause(interval: timedelta) -> float:
    """Seconds to the next sweep, drawn so that processes do not march in step."""
    return interval.total_seconds() * (1 + JITTER * spread())
