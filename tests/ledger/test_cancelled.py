"""An async body that is cancelled while its guard waits for the file: nothing is left half done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing

import pytest
from tests.ledger.conftest import OpenLedger
from tests.ledger.homes import Home

from duly import Ledger, Receipt, exactly_once

pytestmark = pytest.mark.usefixtures("sqlite_only")

PATIENCE = 60.0


@pytest.fixture
def patient(open_ledger: OpenLedger) -> Ledger:
    return open_ledger(patience=f"{PATIENCE:.0f}s")


@asynccontextmanager
async def writing(home: Home) -> AsyncGenerator[None]:
    """Somebody else has the file, and lets go of it shortly after the block, on this very loop."""
    with closing(home.connect()) as other:
        other.execute("begin immediate")
        yield
        await asyncio.sleep(0.2)
        other.rollback()


async def test_cancelling_the_completion_holds_nobody_up_and_gives_the_claim_back(
    home: Home, patient: Ledger
) -> None:
    has_returned = asyncio.Event()

    @exactly_once(ledger=patient, name="pay")
    async def pay(receipt: Receipt) -> None:
        await receipt.aconnection()
        await is_locked.wait()
        has_returned.set()

    is_locked = asyncio.Event()
    receipt = (await patient.aissue(pay)).id
    running = asyncio.create_task(pay(execution_id=receipt))
    while not (view := patient.get(receipt)) or not view.is_claimed:
        await asyncio.sleep(0.01)
    began = time.monotonic()
    async with writing(home):
        is_locked.set()
        await has_returned.wait()
        await asyncio.sleep(0.1)
        running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running

    view = patient.get(receipt)
    assert time.monotonic() - began < PATIENCE / 2
    assert view is not None
    assert (str(view.state), view.is_claimed) == ("pending", False)


async def test_a_claim_that_comes_after_the_cancellation_is_given_back(home: Home, patient: Ledger) -> None:
    @exactly_once(ledger=patient, name="pay")
    async def pay() -> None: ...

    receipt = (await patient.aissue(pay)).id
    async with writing(home):
        running = asyncio.create_task(pay(execution_id=receipt))
        await asyncio.sleep(0.2)
        running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running

    view = patient.get(receipt)
    assert view is not None
    assert (view.epoch, view.is_claimed) == (1, False)
