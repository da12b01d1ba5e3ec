"""Behind PgBouncer, which gives every transaction another connection of the server."""

from __future__ import annotations

import threading

import psycopg
import pytest
from tests.adapters.postgres import test_pooler
from tests.ledger.conftest import OpenLedger
from tests.ledger.homes import Home

from duly import Receipt, exactly_once

pooled_url = test_pooler.pooled_url

pytestmark = pytest.mark.usefixtures("postgres_only")


def test_everything_works_in_transaction_mode(home: Home, pooled_url: str, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(pooled_url, lost_after="1ms")
    sent: list[str] = []

    @exactly_once(ledger=ledger, name="pay")
    def pay(receipt: Receipt) -> None:
        receipt.connection.execute(home.insert, ("rent", str(receipt.id)))

    receipts = [ledger.issue(pay).id for _ in range(4)]
    while len(sent) < 4:
        ledger.sweep(hand_over=lambda order: sent.append(order.id))
    threads = [threading.Thread(target=pay, kwargs={"execution_id": one}) for one in sent * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(who for _, who in home.effects()) == sorted(receipts)


def test_the_limit_on_idleness_stays_with_its_transaction(
    home: Home, pooled_url: str, open_ledger: OpenLedger
) -> None:
    ledger = open_ledger(pooled_url, lease="7s")

    @exactly_once(ledger=ledger, name="pay")
    def pay(receipt: Receipt) -> str:
        return str(receipt.connection.execute("show idle_in_transaction_session_timeout").fetchone()[0])

    inside = pay(execution_id=ledger.issue(pay).id)

    with psycopg.connect(pooled_url, autocommit=True) as connection:
        limits = {
            str(row[0])
            for _ in range(6)
            for row in connection.execute("show idle_in_transaction_session_timeout").fetchall()
        }
    assert inside == "7s"
    assert limits == {"0"}
