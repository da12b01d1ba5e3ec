"""What receipts are put through: worn-out claims, crowded pools, cut connections, odd connections."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.numeric import FloatLoader
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from tests.ledger.conftest import OpenLedger
from tests.ledger.homes import Home
from tests.ledger.test_guard import claimed
from tests.stories.arrange import until

from duly import Ledger, Receipt, StoreUnavailable, exactly_once
from duly.errors import WrongConnection
from duly.ledger import ReceiptState
from duly.ledger.beat import Beat
from duly.ledger.postgres.database import OwnConnections
from duly.ledger.values import Mark
from duly.stores.drive import Operation
from duly.stores.postgres.address import parse


def wear_out(open_ledger: OpenLedger, mark: Mark) -> None:
    """End a lease as time would."""
    other = open_ledger(lease="1ms")
    other.run(other.operations.renew([mark]))
    until(lambda: not (view := other.get(mark.id)) or not view.is_claimed)


def alchemy_url(home: Home) -> str:
    return home.url.replace("postgresql:", "postgresql+psycopg:")


def test_a_body_that_was_exhausted_while_it_ran_completes_all_the_same(
    home: Home, open_ledger: OpenLedger
) -> None:
    ledger = open_ledger(max_hand_overs=1)
    ledger.hand_over(lambda _: None)

    @exactly_once(ledger=ledger, name="pay")
    def pay(receipt: Receipt) -> str:
        wear_out(open_ledger, Mark(str(receipt.id), receipt.epoch, str(mark_of(ledger, str(receipt.id)))))
        assert ledger.sweep().exhausted == 1
        receipt.connection.execute(home.insert, ("rent", "slow"))
        return "paid"

    receipt = ledger.issue(pay).id

    assert pay(execution_id=receipt) == "paid"
    view = ledger.get(receipt)
    assert view is not None
    assert view.state is ReceiptState.COMPLETED
    assert home.effects() == [("rent", "slow")]


def mark_of(ledger: Ledger, receipt: str) -> str | None:
    view = ledger.get(receipt)
    return None if view is None else view.mark


def test_the_epoch_of_a_made_receipt_never_falls_behind_a_claim_that_froze(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    frozen = ledger.claim("order-1", makes_as="pay")
    assert isinstance(frozen, Mark)
    wear_out(open_ledger, frozen)

    @exactly_once(ledger=ledger, name="pay", missing="create")
    def pay(receipt: Receipt) -> None:
        raise ConnectionError(receipt.epoch)

    for epoch in (2, 3):
        with pytest.raises(ConnectionError, match=str(epoch)):
            pay(execution_id="order-1")


def test_renewing_goes_on_after_an_error_that_nobody_thought_of(ledger: Ledger) -> None:
    calls: list[Operation[frozenset[Mark]]] = []
    has_gone_on = threading.Event()

    def run(operation: Operation[frozenset[Mark]], _: timedelta) -> frozenset[Mark]:
        calls.append(operation)
        if len(calls) == 1:
            raise RuntimeError("not a StoreError")
        has_gone_on.set()
        return frozenset()

    mark = Mark("1", 1, "m")
    beat = Beat(run, ledger.operations, timedelta(milliseconds=30))
    beat.add(mark)

    assert has_gone_on.wait(40)
    beat.remove(mark)


# --- pools ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("postgres_only")
def test_a_pool_without_a_free_connection_is_an_outage_that_names_it(
    home: Home, open_ledger: OpenLedger
) -> None:
    engine = create_engine(alchemy_url(home), pool_size=1, max_overflow=0, pool_timeout=0.1)
    ledger = open_ledger(engine)

    with engine.connect(), pytest.raises(StoreUnavailable, match="pool_size"):
        ledger.get("1")

    assert ledger.get("1") is None
    engine.dispose()


@pytest.mark.usefixtures("postgres_only")
def test_a_pool_full_of_dead_connections_is_got_over(home: Home, open_ledger: OpenLedger) -> None:
    name = f"{home.namespace}-pool"
    engine = create_engine(alchemy_url(home), pool_size=5, connect_args={"application_name": name})
    ledger = open_ledger(engine)
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(engine.connect())
    with psycopg.connect(home.url, autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s", (name,)
        )

    assert ledger.get("1") is None
    engine.dispose()


@pytest.mark.usefixtures("postgres_only")
def test_a_connection_in_use_while_the_ledger_closes_is_closed_when_it_comes_back(home: Home) -> None:
    lender = OwnConnections(parse(home.url), timedelta(seconds=5))

    with lender.lent() as in_use:
        lender.close()
        assert not in_use.closed
    with lender.lent() as another:
        assert another is not in_use
    lender.close()

    assert (in_use.closed, another.closed) == (True, True)


# --- connections of callers -----------------------------------------------------------------------


@pytest.mark.usefixtures("postgres_only")
async def test_an_async_session_that_has_not_connected_yet_will_do(home: Home, ledger: Ledger) -> None:
    engine = create_async_engine(alchemy_url(home))
    async with async_sessionmaker(engine)() as session:
        issued = await ledger.aissue("pay", connection=session)
        await session.commit()
    await engine.dispose()

    assert ledger.get(issued.id) is not None


@pytest.mark.usefixtures("postgres_only")
def test_a_transaction_that_has_failed_is_refused_by_name(home: Home, ledger: Ledger) -> None:
    with closing(home.connect()) as connection:
        with pytest.raises(psycopg.Error):
            connection.execute("select nonsense")

        with pytest.raises(WrongConnection, match="Roll it back"):
            ledger.issue("pay", connection=connection)


@pytest.mark.usefixtures("postgres_only")
def test_a_connection_that_reads_numbers_its_own_way_will_do(home: Home, ledger: Ledger) -> None:
    class Odd(FloatLoader):
        def load(self, data: Any) -> Any:
            return bytes(data).decode()

    with closing(home.connect()) as connection:
        connection.adapters.register_loader("float8", Odd)
        issued = ledger.issue("pay", connection=connection)
        connection.commit()

    assert claimed(ledger, issued.id).epoch == 1
