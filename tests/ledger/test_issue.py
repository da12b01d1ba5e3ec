"""A receipt is issued in the application's own transaction, and handed over after its commit."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.ledger.conftest import OpenLedger
from tests.ledger.homes import Home

from duly import BadRequest, DefinitionError, HandOver, Ledger, exactly_once
from duly.errors import MissingExtra, SchemaMismatch, WrongConnection
from duly.ledger import ReceiptState
from duly.ledger.texts import statements


def test_a_receipt_is_there_if_and_only_if_the_change_is(home: Home, ledger: Ledger) -> None:
    with closing(home.connect()) as connection:
        connection.execute(home.insert, ("order", "kept"))
        kept = ledger.issue("pay", (1,), connection=connection).id
        connection.commit()
        connection.execute(home.insert, ("order", "undone"))
        undone = ledger.issue("pay", (2,), connection=connection).id
        connection.rollback()

    assert home.effects() == [("order", "kept")]
    assert ledger.get(kept) is not None
    assert ledger.get(undone) is None


def test_what_was_issued_is_delivered_with_its_arguments_after_the_commit(home: Home, ledger: Ledger) -> None:
    orders: list[HandOver] = []
    ledger.hand_over(orders.append)

    with closing(home.connect()) as connection:
        receipt = ledger.issue("pay", (1,), {"to": "ada"}, connection=connection).id
        too_early = ledger.deliver(receipt) if not home.is_sqlite else False
        connection.commit()

    assert too_early is False
    assert ledger.deliver(receipt) is True
    assert ledger.deliver(receipt) is False  # once is enough
    (order,) = orders
    assert (order.id, order.name, order.args, order.kwargs, order.number) == (
        receipt,
        "pay",
        (1,),
        {"to": "ada"},
        1,
    )


def test_without_a_connection_it_is_handed_over_at_once(ledger: Ledger, sent: list[str]) -> None:
    receipt = ledger.issue("pay").id

    view = ledger.get(receipt)
    assert sent == [receipt]
    assert view is not None
    assert (view.state, view.hand_overs) == (ReceiptState.PENDING, 1)


def test_an_id_is_issued_once(ledger: Ledger, sent: list[str]) -> None:
    first = ledger.issue("nightly", execution_id="nightly@2026-11-15T02:00Z")
    second = ledger.issue("nightly", execution_id="nightly@2026-11-15T02:00Z")

    assert (first.created, second.created) == (True, False)
    assert sent == ["nightly@2026-11-15T02:00Z"]


def test_a_queue_that_is_down_leaves_it_to_the_sweep(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()

    @ledger.hand_over
    def refuse(order: HandOver) -> None:
        raise ConnectionError("no queue")

    receipt = ledger.issue("pay").id

    view = ledger.get(receipt)
    assert view is not None
    assert (view.state, view.hand_overs) == (ReceiptState.PENDING, 0)
    assert refuse is not None


def test_a_guarded_function_names_its_receipts(ledger: Ledger) -> None:
    @exactly_once(ledger=ledger)
    def pay() -> None: ...

    view = ledger.get(ledger.issue(pay).id)

    assert view is not None
    assert view.name == f"{__name__}.test_a_guarded_function_names_its_receipts.<locals>.pay"


def test_a_function_that_is_not_guarded_has_no_name(ledger: Ledger) -> None:
    with pytest.raises(BadRequest, match="is no name for a receipt"):
        ledger.issue(print)


def test_delivering_needs_a_way(ledger: Ledger) -> None:
    with pytest.raises(DefinitionError, match=r"@ledger\.hand_over"):
        ledger.deliver("anything")


def test_a_failing_issue_leaves_the_callers_transaction_usable(home: Home, ledger: Ledger) -> None:
    lost = Ledger(home.url, namespace="elsewhere")
    lost._is_open = True  # pyright: ignore[reportPrivateUsage]  # as if its tables had been dropped since

    with closing(lost), closing(home.connect()) as connection:
        connection.execute(home.insert, ("order", "kept"))
        with pytest.raises(SchemaMismatch):
            lost.issue("pay", connection=connection)
        connection.commit()

    assert home.effects() == [("order", "kept")]


@pytest.mark.usefixtures("sqlite_only")
def test_a_connection_to_another_file_is_refused(ledger: Ledger, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("create table something (a)")

        with pytest.raises(WrongConnection):
            ledger.issue("pay", connection=other)


@pytest.mark.usefixtures("postgres_only")
def test_a_connection_to_another_database_is_refused(ledger: Ledger, home: Home) -> None:
    with (
        psycopg.connect(home.url.replace("/postgres?", "/template1?")) as other,
        pytest.raises(WrongConnection, match="'template1'"),
    ):
        ledger.issue("pay", connection=other)


@pytest.mark.usefixtures("postgres_only")
async def test_an_async_connection_takes_a_receipt_too(ledger: Ledger, home: Home) -> None:
    async with await psycopg.AsyncConnection.connect(home.url) as connection:
        kept = (await ledger.aissue("pay", connection=connection)).id
        await connection.commit()
        undone = (await ledger.aissue("pay", connection=connection)).id
        await connection.rollback()
        with pytest.raises(WrongConnection, match="async twin"):
            ledger.issue("pay", connection=connection)

    assert await ledger.aget(kept) is not None
    assert await ledger.aget(undone) is None


@pytest.mark.usefixtures("postgres_only")
def test_a_connection_that_commits_by_itself_issues_at_once(ledger: Ledger, home: Home) -> None:
    with psycopg.connect(home.url, autocommit=True) as connection:
        receipt = ledger.issue("pay", connection=connection).id

        assert ledger.get(receipt) is not None


@pytest.mark.parametrize("place", ["redis://localhost", "memory://", 7, None])
def test_a_place_that_cannot_hold_receipts_is_refused(place: Any) -> None:
    with pytest.raises(DefinitionError, match=r"sqlite:///app\.db"):
        Ledger(place)


def test_an_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str) -> None: ...

    monkeypatch.setattr("importlib.util.find_spec", find_nothing)

    with pytest.raises(MissingExtra, match=r"duly\[postgres\]"):
        Ledger("postgresql://nowhere/at_all")


@pytest.mark.parametrize("option", [{"max_hand_overs": 0}, {"lease": 0}, {"max_hand_overs": True}])
def test_terms_that_cannot_work_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        Ledger("sqlite:///app.db", **option)


def test_the_seeds_times_are_the_defaults() -> None:
    terms = Ledger("sqlite:///app.db", interval="15s").terms
    slow = Ledger("sqlite:///app.db", interval="45s").terms

    assert (terms.lost_after.total_seconds(), slow.lost_after.total_seconds()) == (60, 90)
    assert (terms.max_hand_overs, terms.keep_for.total_seconds()) == (3, 24 * 3600)
    assert [terms.wait_after(n).total_seconds() for n in (1, 2, 3)] == [300, 600, 1200]


def test_both_databases_say_the_same() -> None:
    for operation in ("issue", "look", "claim", "renew", "complete", "release", "sweep", "prune", "find"):
        assert statements("sqlite", operation).keys() == statements("postgres", operation).keys()


def test_opening_twice_and_migrating_change_nothing(open_ledger: OpenLedger) -> None:
    open_ledger()

    assert open_ledger().migrate() == []
