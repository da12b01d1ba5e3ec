"""The end of a run inside a transaction: its effects and its completion commit together, or neither does.

The body's own thread, loop or process does it, before the pump hears of the run. What the pump gets is an end
whose answer is known, or, where a COMMIT went unanswered, one that it must look up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeVar, cast

from duly import codec, failpoints
from duly.app import App
from duly.clock import Clock
from duly.errors import ConditionFailed, StoreError, TransactionEnded
from duly.ids import spread
from duly.job import Fence, Job
from duly.lifecycle import Again, Crash, Done, Release, Settled, Stop, Verdict
from duly.reactive.change import Facts, Found, outdated
from duly.run import raised
from duly.stores.changes import Changes, Glance
from duly.stores.contract import Page, Selection, Settlement, Store
from duly.stores.drive import Operation, together
from duly.transactions import AsyncTransaction, Source, Transaction, source_for
from duly.transactions.contract import CommitUnknown, Conflict, CutOff, IdledOut
from duly.transactions.words import UNDONE
from duly.worker.endings import Concluded, judge, settlement_of
from duly.worker.hand import Holding

T = TypeVar("T")

BUSY_FOR: Final = 2.0
"""Seconds for which a completion is tried again while somebody's transaction holds the job."""
BUSY_PAUSE: Final = 0.02
CONFLICT_PAUSE: Final = timedelta(milliseconds=200)
OUTAGE_PAUSE: Final = timedelta(seconds=1)
SETTLING: Final = frozenset({"done", "again", "stop"})
"""Events by which a run's completion is known again."""
REFUSED: Final = {
    Settled.LOST: "its lease was lost, and its effects were rolled back",
    Settled.SUPERSEDED: "it was superseded or cancelled, and its effects were rolled back",
    Settled.BUSY: "somebody's transaction held the job for too long, and its effects were rolled back",
}


class Settle(NamedTuple):
    """Say this inside the transaction."""

    operation: Operation[list[Settled]]


class Finish(NamedTuple):
    """Say this and commit, at once; answers whether that could be done."""

    worker: str
    settlement: Settlement


class Commit(NamedTuple):
    """Commit it."""


class Pause(NamedTuple):
    """Wait so many seconds."""

    seconds: float


class Ask(NamedTuple):
    """Ask the store on another connection, which sees what is committed and nothing of this transaction."""

    operation: Operation[Any]


Act = Settle | Finish | Commit | Pause | Ask
Closing = Generator[Act, Any, Concluded]


class Counter:
    """Where the runs of one worker get their transactions and end in them."""

    def __init__(self, app: App, worker: str, renewal: Callable[[], Operation[Any]] | None = None) -> None:
        self.app = app
        self.worker = worker
        self._renewal = renewal
        """Extends the worker's lease in a commit before which nobody could."""
        self._source: Source | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def store(self) -> Store:
        """The store, whose transactions these are."""
        return self.app.store

    @property
    def clock(self) -> Clock:
        """The application's clock."""
        return self.app.clock

    @property
    def source(self) -> Source:
        """Where transactions come from, made at first use: once, though several bodies may come first."""
        with self._lock:
            if self._source is None:
                self._source = source_for(self.store, self.app.transactions, self.app.settings.lease)
                if self._is_closed:  # for a body that was left behind: nobody comes after it
                    self._source.close()
            return self._source

    def close(self) -> None:
        """Close connections that nobody uses, now and when the last bodies give theirs back."""
        with self._lock:
            self._is_closed = True
        if self._source is not None:
            self._source.close()

    def closing(self, ended: Concluded, transaction: Transaction | AsyncTransaction) -> Closing:
        """Settle and commit, and say what came of it."""
        holding, claim = ended.holding, ended.holding.claim
        try:
            if self._may_finish(holding, transaction) and (yield self._finish(ended)):
                return Concluded(holding, ended.verdict, ended.then, answer=Settled.SETTLED)
            answer = yield from self._settling(ended, transaction)
            if answer is not Settled.SETTLED:
                return Concluded(holding, Release(_wait(answer), REFUSED[answer]))
            yield from self._assuring(holding)
            failpoints.reached("before_commit", claim.task)
            yield Commit()
            if transaction.is_borrowed:
                yield from self._confirming(claim.fence)
        except CommitUnknown as error:
            note = f"the answer to its COMMIT was lost ({error})"
            return Concluded(holding, Release(OUTAGE_PAUSE, note), meant=ended.verdict)
        except Exception as error:
            return Concluded(holding, self.verdict_on(ended, error), ended.then)
        failpoints.reached("after_commit", claim.task)
        return Concluded(holding, ended.verdict, ended.then, answer=Settled.SETTLED)

    def _may_finish(self, holding: Holding, transaction: Transaction | AsyncTransaction) -> bool:
        """Nothing is to be looked at between settling and committing, and nothing else to be said."""
        is_plain = holding.task.reaction is None and failpoints.armed is None
        return is_plain and not self._must_renew(transaction)

    def _must_renew(self, transaction: Transaction | AsyncTransaction) -> bool:
        return self._renewal is not None and transaction.held > self.app.settings.lease.total_seconds() / 4

    def _finish(self, ended: Concluded) -> Finish:
        return Finish(self.worker, settlement_of(ended, is_conditional=True))

    def _settling(
        self, ended: Concluded, transaction: Transaction | AsyncTransaction
    ) -> Generator[Act, Any, Settled]:
        settlement = settlement_of(ended, is_conditional=True)
        until = time.monotonic() + BUSY_FOR
        while True:
            operation = self.store.settle(self.worker, [settlement])
            if self._renewal is not None and self._must_renew(transaction):
                operation = _then(operation, self._renewal())
            ((answer,),) = ((yield Settle(operation)),)
            if answer is not Settled.BUSY or time.monotonic() > until:
                return Settled(answer)
            yield Pause(BUSY_PAUSE)

    def _confirming(self, fence: Fence) -> Generator[Act, Any, None]:
        """A block of somebody else's may end without an error and without a commit: look whether it did."""
        try:
            found = yield Ask(look_up(self.store, [fence.id]))
        except StoreError as error:
            raise CommitUnknown(str(error)) from error
        if not any(is_settled_by(job, fence) for job in found):
            raise TransactionEnded(UNDONE)

    def _assuring(self, holding: Holding) -> Generator[Act, Any, None]:
        """The row a run is about must be as it was: held first, then looked at as others see it.

        What the body itself wrote to the row is not yet to be seen there, so it makes nothing outdated.
        """
        glance = glance_of(holding)
        if glance is None:
            return
        store = cast(Changes, self.store)
        yield Settle(cast(Operation[Any], store.hold_row(glance)))
        check_row(glance, (yield Ask(store.read_row(glance))))

    def verdict_on(self, ended: Concluded, error: BaseException) -> Verdict:
        """What a transaction that failed means: an outage is nobody's fault, the rest is the body's."""
        holding = ended.holding
        match error:
            case Conflict():
                return Release(CONFLICT_PAUSE * (1 + spread()), f"its transaction met another one: {error}")
            case CutOff() | StoreError():
                return Release(OUTAGE_PAUSE * (0.5 + spread()), f"its transaction was cut off: {error}")
            case IdledOut():
                return Crash(f"its transaction idled for a whole lease: {error}", holding.claim.is_suspect)
            case _:
                now, options = self.clock.now(), holding.task.options
                return judge(
                    holding,
                    ended.effects,
                    lambda: raised(options, holding.claim, error, now=now, spread=spread()),
                )


def glance_of(holding: Holding) -> Glance | None:
    """Which row a run is about; None for tasks that follow no table."""
    if holding.task.reaction is None:
        return None
    (facts,), _ = codec.unpack(holding.claim.arguments)
    return Glance(holding.task.name, Facts.read(facts), columns=())


def check_row(glance: Glance, found: Found | None) -> None:
    """Raise ConditionFailed when what the run did is about what is no longer so."""
    reason = outdated(glance.facts, found)
    if reason is not None:
        raise ConditionFailed(reason)


def _wait(answer: Settled) -> timedelta:
    return CONFLICT_PAUSE if answer is Settled.BUSY else timedelta(0)


def _then(first: Operation[list[Settled]], second: Operation[Any]) -> Operation[list[Settled]]:
    both = together(first.name, first, second)

    def steps() -> Generator[Any, Any, list[Settled]]:
        answers, _ = yield from both.steps()
        return list(answers)

    return Operation(first.name, steps)


def commits(verdict: Verdict) -> bool:
    """Ends that keep the effects: the body returned, and neither failed nor asked to be run again instead."""
    return isinstance(verdict, Done) or (isinstance(verdict, Again | Stop) and verdict.error is None)


# --- looking --------------------------------------------------------------------------------------


def look_up(store: Store, ids: Sequence[str]) -> Operation[list[Job]]:
    """Jobs with their histories, in which a completion leaves its line."""
    return store.find(Selection(ids=tuple(ids)), Page(len(ids), with_history=True))


def is_settled_by(job: Job, fence: Fence) -> bool:
    """Whether the run with this fence completed its job, or its cycle."""
    return any(line.epoch == fence.epoch and line.event in SETTLING for line in job.history)
