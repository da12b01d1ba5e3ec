"""Bodies on SQLAlchemy's connections and sessions, with an engine instead of a URL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, sessionmaker
from tests.ledger.conftest import OpenLedger
from tests.ledger.homes import TABLE, Home
from tests.ledger.test_guard import await_renewal, take_over

from duly import DefinitionError, Receipt, ReceiptLost, exactly_once
from duly.errors import TransactionEnded
from duly.ledger import ReceiptState


def insert_into(home: Home) -> Any:
    table = TABLE if home.is_sqlite else f'"{home.namespace}".{TABLE}'
    return text(f"insert into {table} values (:what, :who)")


@pytest.fixture
def engine(home: Home) -> Iterator[Engine]:
    made = create_engine(home.url.replace("postgresql:", "postgresql+psycopg:"))
    yield made
    made.dispose()


def test_an_engine_gives_bodies_its_connections(home: Home, engine: Engine, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(engine)

    @exactly_once(ledger=ledger, name="pay")
    def pay(what: str, receipt: Receipt) -> None:
        connection: Connection = receipt.connection
        connection.execute(insert_into(home), {"what": what, "who": "core"})
        if what == "broken":
            raise ConnectionError

    receipt = ledger.issue(pay, ("rent",)).id
    with pytest.raises(ConnectionError):
        pay("broken", execution_id=receipt)
    pay("rent", execution_id=receipt)
    pay("rent", execution_id=receipt)

    view = ledger.get(receipt)
    assert home.effects() == [("rent", "core")]
    assert view is not None
    assert view.state is ReceiptState.COMPLETED
    assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]


def test_a_sessionmaker_gives_bodies_sessions(home: Home, engine: Engine, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(sessionmaker(engine))

    @exactly_once(ledger=ledger, name="pay")
    def pay(receipt: Receipt) -> None:
        session: Session = receipt.connection
        with session.begin_nested():
            session.execute(insert_into(home), {"what": "rent", "who": "orm"})

    receipt = ledger.issue(pay).id
    pay(execution_id=receipt)
    pay(execution_id=receipt)

    assert home.effects() == [("rent", "orm")]


@pytest.mark.parametrize("is_session", [True, False])
def test_a_body_cannot_commit_early(
    home: Home, engine: Engine, open_ledger: OpenLedger, is_session: bool
) -> None:
    ledger = open_ledger(sessionmaker(engine) if is_session else engine)

    @exactly_once(ledger=ledger, name="pay")
    def hasty(receipt: Receipt) -> None:
        receipt.connection.execute(insert_into(home), {"what": "rent", "who": "hasty"})
        receipt.connection.commit()

    with pytest.raises(TransactionEnded, match="commit"):
        hasty(execution_id=ledger.issue(hasty).id)

    assert home.effects() == []


def test_a_body_whose_claim_was_taken_over_is_rolled_back(
    home: Home, engine: Engine, open_ledger: OpenLedger
) -> None:
    ledger = open_ledger(engine)

    @exactly_once(ledger=ledger, name="pay")
    def slow(receipt: Receipt) -> None:
        take_over(ledger, str(receipt.id))
        receipt.connection.execute(insert_into(home), {"what": "rent", "who": "zombie"})

    with pytest.raises(ReceiptLost):
        slow(execution_id=ledger.issue(slow).id)

    assert home.effects() == []


def test_a_receipt_is_issued_in_a_sessions_transaction(
    home: Home, engine: Engine, open_ledger: OpenLedger
) -> None:
    ledger = open_ledger(engine)

    with Session(engine) as session:
        session.execute(insert_into(home), {"what": "order", "who": "kept"})
        kept = ledger.issue("pay", connection=session).id
        session.commit()
        undone = ledger.issue("pay", connection=session).id
        session.rollback()

    assert ledger.get(kept) is not None
    assert ledger.get(undone) is None
    assert home.effects() == [("order", "kept")]


@pytest.mark.usefixtures("postgres_only", "quick_beats")
def test_a_repeatable_read_body_completes_although_its_lease_was_renewed(
    home: Home, open_ledger: OpenLedger
) -> None:
    engine = create_engine(
        home.url.replace("postgresql:", "postgresql+psycopg:"), isolation_level="REPEATABLE READ"
    )
    ledger = open_ledger(engine)

    @exactly_once(ledger=ledger, name="pay")
    def slow(receipt: Receipt) -> None:
        receipt.connection.execute(insert_into(home), {"what": "rent", "who": "snapshot"})
        await_renewal(ledger, receipt.id)

    slow(execution_id=ledger.issue(slow).id)

    assert home.effects() == [("rent", "snapshot")]
    engine.dispose()


@pytest.mark.usefixtures("postgres_only")
@pytest.mark.parametrize("is_session", [True, False])
async def test_an_async_engine_serves_async_bodies(
    home: Home, open_ledger: OpenLedger, is_session: bool
) -> None:
    engine: AsyncEngine = create_async_engine(home.url.replace("postgresql:", "postgresql+psycopg:"))
    ledger = open_ledger(async_sessionmaker(engine) if is_session else engine)

    @exactly_once(ledger=ledger, name="pay")
    async def pay(what: str, receipt: Receipt) -> str:
        connection: AsyncConnection = await receipt.aconnection()
        await connection.execute(insert_into(home), {"what": what, "who": "async"})
        if what == "broken":
            raise ConnectionError
        if what == "hasty":
            await connection.commit()
        return what

    receipt = (await ledger.aissue(pay, ("rent",))).id
    with pytest.raises(ConnectionError):
        await pay("broken", execution_id=receipt)
    with pytest.raises(TransactionEnded):
        await pay("hasty", execution_id=receipt)
    assert await pay("rent", execution_id=receipt) == "rent"
    assert await pay("rent", execution_id=receipt) is None
    assert home.effects() == [("rent", "async")]
    await engine.dispose()


@pytest.mark.usefixtures("postgres_only")
def test_a_blocking_body_cannot_use_an_async_engine(home: Home, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(create_async_engine(home.url.replace("postgresql:", "postgresql+psycopg:")))

    @exactly_once(ledger=ledger, name="pay")
    def pay(receipt: Receipt) -> None:
        receipt.connection.execute("select 1")

    with pytest.raises(DefinitionError, match="Make the function async"):
        pay(execution_id=ledger.issue(pay).id)


def test_a_driver_we_cannot_share_a_transaction_with_is_refused(open_ledger: OpenLedger) -> None:
    class Elsewhere:
        class dialect:  # noqa: N801
            name, driver = "mysql", "pymysql"

        def connect(self) -> None: ...

    with pytest.raises(DefinitionError, match="mysql through pymysql"):
        open_ledger(Elsewhere())
