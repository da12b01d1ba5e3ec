"""A claimed receipt as its body sees it: whose it is, and the transaction its effects belong in."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

from duly.errors import NotInRun, ReceiptLost
from duly.ledger.beat import Beat
from duly.ledger.database import AsyncTransaction, Bodies, Transaction
from duly.ledger.values import Mark
from duly.stores.drive import Operation

log = logging.getLogger("duly.ledger")

_current: ContextVar[Receipt | None] = ContextVar("duly_current_receipt", default=None)


class Receipt:
    """What a guarded body knows. A parameter annotated `Receipt` gets it."""

    def __init__(self, mark: Mark | None, bodies: Bodies, limit: timedelta, beat: Beat) -> None:
        self._mark = mark
        self._bodies = bodies
        self._limit = limit
        self._beat = beat
        self._begun: Transaction | None = None
        self._abegun: AsyncTransaction | None = None
        self.is_async = False

    @property
    def id(self) -> str | None:
        """The execution's id; None in a call that is not guarded."""
        return None if self._mark is None else self._mark.id

    @property
    def epoch(self) -> int:
        """How often the receipt was claimed, this time included: a fencing token for systems outside."""
        return 0 if self._mark is None else self._mark.epoch

    @property
    def is_lost(self) -> bool:
        """True once another claim is known to have taken over: what this body writes will be rolled back."""
        return self._mark is not None and self._beat.is_lost(self._mark)

    @property
    def connection(self) -> Any:
        """The transaction that commits together with the completion. It begins when first asked for."""
        if self._abegun is not None:
            return self._abegun.connection
        if self.is_async:
            raise NotInRun(
                "The transaction of an async function has not begun: `await receipt.aconnection()` first."
            )
        return self.begun().connection

    async def aconnection(self) -> Any:
        """The same in an async function: a connection to be awaited, where the database's driver has one."""
        return (await self.abegun()).connection

    # What the guard does with it.

    def begun(self) -> Transaction:
        """The transaction, begun if it was not."""
        if self._begun is None:
            self._begun = self._bodies.begin(self._limit)
        return self._begun

    async def abegun(self) -> AsyncTransaction:
        """The transaction, begun if it was not."""
        if self._abegun is None:
            self._abegun = await self._bodies.abegin(self._limit)
        return self._abegun

    def finish(self, complete: Operation[bool] | None) -> None:
        """Say the last word in the transaction: done, or not ours any more."""
        if complete is not None and not self.begun().perform(complete):
            raise ReceiptLost(str(self.id), self.epoch)

    async def afinish(self, complete: Operation[bool] | None) -> None:
        """The same, awaited."""
        if complete is not None and not await (await self.abegun()).perform(complete):
            raise ReceiptLost(str(self.id), self.epoch)

    def commit(self) -> None:
        """End the transaction, if there is one."""
        if self._begun is not None:
            self._begun.commit()

    async def acommit(self) -> None:
        """The same, awaited."""
        if self._abegun is not None:
            await self._abegun.commit()

    def rollback(self) -> None:
        """Undo the transaction. What goes wrong with that is the lesser evil: the body's error is told."""
        if self._begun is not None:
            try:
                self._begun.rollback()
            except Exception as error:
                log.debug("the transaction of receipt %s was gone already: %s", self.id, error)

    async def arollback(self) -> None:
        """The same, awaited."""
        if self._abegun is not None:
            try:
                await self._abegun.rollback()
            except Exception as error:
                log.debug("the transaction of receipt %s was gone already: %s", self.id, error)


def current_receipt() -> Receipt:
    """The receipt of the guarded body that is running here, for code further down."""
    receipt = _current.get()
    if receipt is None:
        raise NotInRun(
            "current_receipt() is for code that a guarded function calls; nothing is guarded here."
        )
    return receipt


@contextmanager
def as_current(receipt: Receipt) -> Generator[None, None, None]:
    """Code inside belongs to this receipt."""
    token = _current.set(receipt)
    try:
        yield
    finally:
        _current.reset(token)
