"""What ties one run to a transaction: `run.connection`, `run.complete`, and the end in it.

Made for every run; costs nothing until the body asks for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from duly.errors import (
    LeaseLost,
    NotInRun,
    StoreBusy,
    StoreError,
    WrongConnection,
)
from duly.job import Delivery, Job, Request
from duly.kinds.outcome import Effects, Raised
from duly.lifecycle import Release, Settled, Verdict, error_of
from duly.run import returned
from duly.stores.changes import Changes
from duly.stores.contract import Placed
from duly.stores.drive import Operation
from duly.transactions import AsyncTransaction, Transaction
from duly.transactions.contract import CutOff, IdledOut, Shield
from duly.transactions.own import acheck_tied, check_tied, raw_of
from duly.transactions.words import COMPLETED, ELSEWHERE, TWICE
from duly.worker.closing import aend, aperform, end, perform
from duly.worker.endings import Concluded, judge, settlement_of
from duly.worker.hand import Holding
from duly.worker.shields import ThreadShield
from duly.worker.transaction import (
    BUSY_FOR,
    BUSY_PAUSE,
    REFUSED,
    Counter,
    check_row,
    commits,
    glance_of,
    is_settled_by,
    look_up,
)

T = TypeVar("T")

UNCOMMITTED: Final = (
    "run.complete(connection) was called, but that transaction did not commit, so nothing was completed. "
    "Let its errors out of the body, and commit before the body returns."
)


class Binding:
    """What ties one run to a transaction: `run.connection`, `run.complete`, and the end."""

    def __init__(self, counter: Counter, holding: Holding, shield: Shield | None = None) -> None:
        self._counter = counter
        self._holding = holding
        self._shield: Shield = ThreadShield() if shield is None else shield
        """Keeps interrupts out while a connection is opened: half of one would belong to nobody."""
        self._transaction: Transaction | None = None
        self._awaited: AsyncTransaction | None = None
        self._completed: Verdict | None = None
        self._has_placed = False
        self.outage: BaseException | None = None
        """Why no transaction could be had."""

    @property
    def is_exact(self) -> bool:
        """Whether effects and completion commit together."""
        return self._holding.task.options.delivery is Delivery.EXACTLY_ONCE

    # what the body does

    @property
    def connection(self) -> Any:
        """The connection of the run's transaction, which is lent at the first call."""
        if self._completed is not None and not self._has_begun:
            raise WrongConnection(COMPLETED)
        if self._awaited is not None:
            return self._awaited.connection
        return self._lent().connection

    @property
    def _has_begun(self) -> bool:
        transaction = self._awaited or self._transaction
        return transaction is not None and transaction.has_begun

    def _lent(self) -> Transaction:
        if self._transaction is None:
            self._shield(self._lend)
        assert self._transaction is not None
        return self._transaction

    def _lend(self) -> None:
        try:
            self._transaction = self._counter.source.lend(self._mark, self._shield)
        except StoreError as error:
            self.outage = error
            raise
        self._holding.stop_by(self._transaction.abandon)

    @property
    def _mark(self) -> str:
        claim = self._holding.claim
        return f"{claim.id}-{claim.epoch}"

    def prepare(self) -> None:
        """Before a body in a thread: what needs no connection in hand must find its transaction open."""
        if self.is_exact and self._counter.source.is_ambient:
            self._lent()

    async def aprepare(self) -> None:
        """Before a body on a loop: a property cannot wait for a connection."""
        if self.is_exact:
            try:
                self._awaited = await self._counter.source.alend(self._mark)
            except StoreError as error:
                self.outage = error
                raise

    def joins(self, store: object) -> bool:
        """Whether requests to this store are part of the run's transaction."""
        return self.is_exact and store is self._counter.store

    def place(self, requests: Sequence[Request]) -> list[Placed]:
        """Enqueue inside the run's transaction."""
        if self._awaited is not None:
            raise WrongConnection(
                "The transaction of this run must be awaited: use `await task.aenqueue(…)`."
            )
        self._has_placed = True
        return self._lent().run(self._counter.store.offer(requests))

    async def aplace(self, requests: Sequence[Request]) -> list[Placed]:
        """The async twin of place."""
        if self._awaited is None:
            return self.place(requests)
        self._has_placed = True
        return await self._awaited.run(self._counter.store.offer(requests))

    def within(self, operation: Operation[T]) -> T:
        """Perform inside the run's transaction."""
        if self._awaited is not None:
            raise WrongConnection("The transaction of this run must be awaited: use the async twin.")
        return self._lent().run(operation)

    async def awithin(self, operation: Operation[T]) -> T:
        """The async twin of within."""
        return self.within(operation) if self._awaited is None else await self._awaited.run(operation)

    def complete(self, connection: Any, result: Any) -> None:
        """Settle the run in a transaction of the body's own."""
        store, until = self._counter.store, time.monotonic() + BUSY_FOR
        check_tied(store, connection)
        self._check_only(connection)
        if self._completed is not None and self._is_settled(store.run_on(connection, self._look())):
            return self._check_uncommitted(store.run(self._look()))
        while True:
            (answer,) = store.run_on(connection, self._completion(result))
            if self._has_answer(answer, until):
                return self._assure(connection)
            time.sleep(BUSY_PAUSE)

    async def acomplete(self, connection: Any, result: Any) -> None:
        """The async twin of complete."""
        store, until = self._counter.store, time.monotonic() + BUSY_FOR
        await acheck_tied(store, connection)
        self._check_only(connection)
        if self._completed is not None and self._is_settled(await store.arun_on(connection, self._look())):
            return self._check_uncommitted(await store.arun(self._look()))
        while True:
            (answer,) = await store.arun_on(connection, self._completion(result))
            if self._has_answer(answer, until):
                return await self._aassure(connection)
            await asyncio.sleep(BUSY_PAUSE)

    def _check_only(self, connection: Any) -> None:
        """A run completes in one transaction: its own, or one of the body's."""
        transaction = self._awaited or self._transaction
        if transaction is None:
            return
        store = self._counter.store
        if raw_of(store, connection) is raw_of(store, transaction.connection):
            return
        if transaction.has_begun:
            raise WrongConnection(ELSEWHERE)
        transaction.abandon()

    def _check_uncommitted(self, seen_by_others: list[Job]) -> None:
        """Completed by an earlier call in this very transaction, which is well, or in one before it."""
        if self._is_settled(seen_by_others):
            raise LeaseLost(f"Run {self._holding.claim.id} {TWICE}.")

    def _assure(self, connection: Any) -> None:
        """A run about a row completes only if that is as it was."""
        store, glance = self._counter.store, glance_of(self._holding)
        if glance is not None and isinstance(store, Changes):
            store.run_on(connection, store.hold_row(glance))
            check_row(glance, store.run(store.read_row(glance)))

    async def _aassure(self, connection: Any) -> None:
        store, glance = self._counter.store, glance_of(self._holding)
        if glance is not None and isinstance(store, Changes):
            await store.arun_on(connection, store.hold_row(glance))
            check_row(glance, await store.arun(store.read_row(glance)))

    def _completion(self, result: Any) -> Operation[list[Settled]]:
        holding = self._holding
        assert holding.run is not None
        effects = holding.run.effects
        verdict = judge(holding, effects, lambda: returned(holding.task.options, result))
        if not commits(verdict):
            reason = error_of(verdict) or "the body asked to be put off before"
            raise NotInRun(f"run.complete() cannot complete this run: {reason}.")
        self._completed = verdict
        holding.run.has_completed = True
        ended = Concluded(holding, verdict, tuple(effects.requests))
        settlement = settlement_of(ended, is_conditional=True)
        return self._counter.store.settle(self._counter.worker, [settlement])

    def _has_answer(self, answer: Settled, until: float) -> bool:
        claim = self._holding.claim
        if answer is Settled.BUSY and time.monotonic() < until:
            return False
        if answer is Settled.BUSY:
            raise StoreBusy(f"Job {claim.id} was held by somebody's transaction: it could not be completed.")
        if answer is not Settled.SETTLED:
            raise LeaseLost(f"Run {claim.id} cannot complete: {REFUSED[answer]}.")
        return True

    def _look(self) -> Operation[list[Job]]:
        return look_up(self._counter.store, [self._holding.claim.id])

    def _is_settled(self, found: list[Job]) -> bool:
        return bool(found) and is_settled_by(found[0], self._holding.claim.fence)

    # the end

    def close(self, ended: Concluded) -> Concluded:
        """Commit or roll back in this thread; nothing of the transaction is left afterwards."""
        transaction = self._transaction
        if transaction is None:
            return self._told(ended)
        try:
            if transaction.has_begun and ended.has_returned and commits(ended.verdict):
                acts = self._counter.closing(ended, transaction)
                return self._rung(perform(acts, transaction, self._counter.store))
            return self._told(self._explained(ended, is_cut_off=transaction.is_cut_off))
        finally:
            end(transaction)

    async def aclose(self, ended: Concluded) -> Concluded:
        """The async twin of close."""
        transaction = self._awaited
        if transaction is None:
            return self.close(ended)
        try:
            if transaction.has_begun and ended.has_returned and commits(ended.verdict):
                acts = self._counter.closing(ended, transaction)
                return self._rung(await aperform(acts, transaction, self._counter.store))
            return self._told(self._explained(ended, is_cut_off=transaction.is_cut_off))
        finally:
            await aend(transaction)

    def discard(self) -> None:
        """Undo everything, whatever the run says."""
        if self._transaction is not None:
            end(self._transaction)

    async def adiscard(self) -> None:
        """The async twin of discard."""
        if self._awaited is not None:
            await aend(self._awaited)
        self.discard()

    def drop(self) -> None:
        """The loop goes down: there is nobody left to await anything."""
        if self._awaited is not None:
            self._awaited.drop()
        self.discard()

    @property
    def is_awaited(self) -> bool:
        """Whether the end must be awaited."""
        return self._awaited is not None

    def _rung(self, ended: Concluded) -> Concluded:
        if ended.answer is Settled.SETTLED and (self._has_placed or ended.then):
            self._counter.store.ring()
        return ended

    def _explained(self, ended: Concluded, *, is_cut_off: bool) -> Concluded:
        """A body that raised because its connection was lost did nothing wrong, and one that idled did."""
        if ended.has_returned or not is_cut_off or isinstance(ended.verdict, Release):
            return ended
        error: Exception = IdledOut("25P03") if ended.has_idled else CutOff("the connection was lost")
        return Concluded(ended.holding, self._counter.verdict_on(ended, error))

    def _told(self, ended: Concluded) -> Concluded:
        """What remains to be looked up, and what was no fault of the body's."""
        if self._completed is not None:
            return self._to_look_up(ended, self._completed)
        if self.outage is not None and not ended.has_returned and not isinstance(ended.verdict, Release):
            return Concluded(ended.holding, self._counter.verdict_on(ended, CutOff(str(self.outage))))
        return ended

    def _to_look_up(self, ended: Concluded, meant: Verdict) -> Concluded:
        holding, verdict = ended.holding, ended.verdict
        if ended.has_returned:
            lost = Raised(UNCOMMITTED, reason="its completion was not committed")
            verdict = judge(holding, Effects(), lambda: lost)
        return Concluded(holding, verdict, () if ended.has_returned else ended.then, meant=meant)
