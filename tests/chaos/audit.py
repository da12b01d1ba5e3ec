"""A store that writes down what a worker asks of it and what it answers.

Fencing cannot be judged from outside without it: which write was taken, under which epoch, and when. It
stands between the worker and its store, so the engine is the same as everywhere else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

from tests.chaos.journal import Journal, boot

from duly.errors import StoreBusy
from duly.job import Claim, Fence
from duly.lifecycle import EVENTS, Crash, wait_of
from duly.stores.contract import Ask, Claimed, Renewal, Settlement, Store, Turned, WorkerCard
from duly.stores.drive import Operation, Steps

T = TypeVar("T")
Mark = tuple[str, int, str]

EVERYDAY = "quick"
"""A task that is among the lanes unless only schedules were asked for."""
CONTACT_EVERY = 0.25
"""Answers that say nothing are still signs of life, now and then."""


@dataclass(slots=True)
class Watched(Operation[T]):
    """An operation whose call and answer are written down; the store gets the one it made itself."""

    inner: Operation[T] | None = None
    call: Callable[[], None] = lambda: None
    answer: Callable[[T, float], None] = lambda answer, called: None
    failure: Callable[[BaseException], None] = lambda error: None


class AuditedStore:
    """Everything goes through to the store behind it; what matters to the checker is written down."""

    def __init__(self, store: Store, journal: Journal) -> None:
        self._store = store
        self._journal = journal
        self._lock = threading.Lock()
        self._calls = 0
        self._contact = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def run(self, operation: Operation[T]) -> T:
        if not isinstance(operation, Watched):
            return self._store.run(operation)
        watched: Watched[T] = operation
        watched.call()
        called = boot()
        try:
            answer = self._store.run(watched.inner or watched)
        except BaseException as error:
            watched.failure(error)
            raise
        watched.answer(answer, called)
        return answer

    @property  # type: ignore[misc]
    def __class__(self) -> type[Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Whoever asks what kind of store this is gets the truth about the one behind it."""
        return type(self._store)

    def run_on(self, connection: Any, operation: Operation[T]) -> T:
        return self._store.run_on(connection, _called(operation))

    async def arun_on(self, connection: Any, operation: Operation[T]) -> T:
        return await self._store.arun_on(connection, _called(operation))

    # what is written down

    def turn(self, settlements: Sequence[Settlement], ask: Ask) -> Operation[Turned]:
        number = self._number()

        def answered(turned: Turned, called: float) -> None:
            self._settled(number, settlements, turned.answers)
            self._claimed(ask, turned.claimed, called)

        return self._watch(self._store.turn(settlements, ask), number, settlements, answered)

    def settle(self, worker: str, settlements: Sequence[Settlement]) -> Operation[list[Any]]:
        number = self._number()
        return self._watch(
            self._store.settle(worker, settlements),
            number,
            settlements,
            lambda answers, called: self._settled(number, settlements, answers),
        )

    def claim(self, ask: Ask) -> Operation[Claimed]:
        return self._watch(
            self._store.claim(ask),
            self._number(),
            (),
            lambda claimed, called: self._claimed(ask, claimed, called),
        )

    def begin(
        self, fences: Sequence[Fence], *, isolated: bool, once: bool = False
    ) -> Operation[frozenset[Fence]]:
        words = {"isolated": isolated, "once": once}

        def answered(begun: frozenset[Fence], called: float) -> None:
            self._journal.write("begun", called=called, fences=_marks(fences), begun=_marks(begun), **words)

        return self._plain(
            self._store.begin(fences, isolated=isolated, once=once),
            lambda: self._journal.write("begin", fences=_marks(fences), **words),
            answered,
        )

    def renew(self, card: WorkerCard, fences: Sequence[Fence], lease: timedelta) -> Operation[Renewal]:
        words = {"fences": _marks(fences), "lease": lease.total_seconds()}
        started: list[float] = []

        def answered(renewal: Renewal, called: float) -> None:
            orders = [[*_mark(fence), str(order)] for fence, order in renewal.orders.items()]
            lost = _marks(renewal.lost)
            self._journal.write("renew", phase="ok", called=called, lost=lost, orders=orders, **words)

        def failed(error: BaseException) -> None:
            phase = "busy" if isinstance(error, StoreBusy) else "unknown"
            self._journal.write("renew", phase=phase, called=started[-1], error=repr(error)[:300], **words)

        return _watched(
            self._store.renew(card, fences, lease), lambda: started.append(boot()), answered, failed
        )

    def disown(self, worker: str, held: Sequence[Fence]) -> Operation[int]:
        return self._plain(
            self._store.disown(worker, held),
            lambda: self._journal.write("disown", phase="call", held=_marks(held)),
            lambda count, called: self._journal.write("disown", phase="ok", called=called, count=count),
        )

    def leave(self, worker: str) -> Operation[None]:
        return self._plain(
            self._store.leave(worker),
            lambda: self._journal.write("leave", phase="call"),
            lambda _, called: self._journal.write("leave", phase="ok", called=called),
        )

    # how

    def _number(self) -> str:
        with self._lock:
            self._calls += 1
            return f"{self._journal.process}.{os.getpid()}.{self._calls}"

    def _watch(
        self,
        operation: Operation[T],
        number: str,
        settlements: Sequence[Settlement],
        answered: Callable[[T, float], None],
    ) -> Operation[T]:
        def failed(error: BaseException) -> None:
            self._journal.write("outage", call=number, error=repr(error)[:300])

        return _watched(operation, lambda: self._settling(number, settlements), answered, failed)

    def _plain(
        self, operation: Operation[T], call: Callable[[], None], answered: Callable[[T, float], None]
    ) -> Operation[T]:
        return _watched(
            operation, call, answered, lambda error: self._journal.write("outage", error=repr(error)[:300])
        )

    def _settling(self, number: str, settlements: Sequence[Settlement]) -> None:
        if settlements:
            ends = [_end(settlement) for settlement in settlements]
            self._journal.write("settle", phase="call", call=number, ends=ends)

    def _settled(self, number: str, settlements: Sequence[Settlement], answers: Sequence[Any]) -> None:
        if settlements:
            given = [str(answer) for answer in answers]
            self._journal.write("settle", phase="ok", call=number, answers=given)

    def _claimed(self, ask: Ask, claimed: Claimed, called: float) -> None:
        words = {"called": called, "leaves_nothing": _leaves_nothing(ask, claimed)}
        if claimed.claims:
            now = None if claimed.now is None else claimed.now.timestamp()
            lent = [_lent(claim) for claim in claimed.claims]
            self._journal.write("claim", now=now, claims=lent, **words)
            self._contact = boot()
        elif boot() - self._contact > CONTACT_EVERY:
            self._contact = boot()
            self._journal.write("contact", **words)


def _leaves_nothing(ask: Ask, claimed: Claimed) -> bool:
    """It had room for more of every task, and was free to take over: what is ready now was not ready then."""
    has_room = ask.free > 0 and len(claimed.claims) < ask.limit
    return has_room and ask.takes_over and ask.queues is None and EVERYDAY in ask.lanes


def audited(store: Store, journal: Journal) -> Store:
    """The same store, with a witness."""
    return cast(Store, AuditedStore(store, journal))


def _called(operation: Operation[T]) -> Operation[T]:
    """Part of somebody's transaction: the question is on record, and only the commit decides the rest."""
    if not isinstance(operation, Watched):
        return operation
    watched: Watched[T] = operation
    watched.call()
    return watched if watched.inner is None else replace(watched.inner, meanwhile=watched.meanwhile)


def _watched(
    operation: Operation[T],
    call: Callable[[], None],
    answer: Callable[[T, float], None],
    failure: Callable[[BaseException], None],
) -> Operation[T]:
    def steps() -> Steps[T]:
        call()  # somebody performs it in a transaction of his own
        return operation.steps()

    return Watched(operation.name, steps, operation.writes, None, operation, call, answer, failure)


def _mark(fence: Fence) -> Mark:
    return fence.id, fence.epoch, fence.nonce


def _marks(fences: Sequence[Fence] | frozenset[Fence]) -> list[Mark]:
    return [_mark(fence) for fence in fences]


def _end(settlement: Settlement) -> dict[str, Any]:
    """A verdict, with what the checker compares."""
    verdict = settlement.verdict
    zero = datetime.min.replace(tzinfo=UTC)
    after = (
        None if getattr(verdict, "at", None) is not None else (wait_of(verdict, zero) - zero).total_seconds()
    )
    return {
        "fence": _mark(settlement.fence),
        "verdict": EVENTS[type(verdict)],
        "after": after,
        "counted": isinstance(verdict, Crash) and verdict.counted,
        "then": [[request.task, request.key, request.tick] for request in settlement.then],
        "reason": getattr(verdict, "reason", "") or getattr(verdict, "note", ""),
    }


def _lent(claim: Claim) -> dict[str, Any]:
    return {
        "fence": _mark(claim.fence),
        "task": claim.task,
        "queue": claim.queue,
        "key": claim.key,
        "generation": claim.generation,
        "attempt": claim.attempt,
        "crashes": claim.crashes,
        "deferrals": claim.deferrals,
        "cycle": claim.cycle,
        "suspect": claim.is_suspect,
        "due": claim.due.timestamp(),
        "tick": None if claim.tick is None else claim.tick.timestamp(),
    }
