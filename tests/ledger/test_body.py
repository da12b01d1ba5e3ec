"""What a guarded body sees: its receipt, its transaction, its arguments; in threads and on a loop."""

from __future__ import annotations

import inspect
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.ledger.conftest import OpenLedger
from tests.ledger.homes import Home
from tests.ledger.test_guard import Pay, issued, make_pay, take_over

from duly import BadRequest, DefinitionError, Ledger, Receipt, ReceiptLost, current_receipt, exactly_once
from duly.errors import NotInRun, TransactionEnded


@pytest.fixture
def pay(home: Home, ledger: Ledger) -> Pay:
    return make_pay(home, ledger)


def test_the_transaction_is_not_the_bodys_to_end(home: Home, ledger: Ledger) -> None:
    @exactly_once(ledger=ledger, name="pay")
    def hasty(receipt: Receipt) -> None:
        receipt.connection.execute(home.insert, ("rent", "hasty"))
        receipt.connection.commit()

    with pytest.raises((TransactionEnded, psycopg.ProgrammingError)):
        hasty(execution_id=issued(ledger))

    assert home.effects() == []


@pytest.mark.usefixtures("sqlite_only")
@pytest.mark.parametrize("word", ["rollback", "close", "executescript", "__exit__"])
def test_no_other_way_to_end_it_is_left_open(ledger: Ledger, word: str) -> None:
    @exactly_once(ledger=ledger, name="pay")
    def hasty(receipt: Receipt) -> None:
        getattr(receipt.connection, word)()

    with pytest.raises((TransactionEnded, TypeError)):
        hasty(execution_id=issued(ledger))


@pytest.mark.usefixtures("postgres_only")
def test_a_commit_by_hand_is_found_out(home: Home, ledger: Ledger) -> None:
    @exactly_once(ledger=ledger, name="pay")
    def hasty(receipt: Receipt) -> None:
        receipt.connection.execute(home.insert, ("rent", "hasty"))
        receipt.connection.execute("commit")

    with pytest.raises(TransactionEnded, match="ended by a COMMIT"):
        hasty(execution_id=issued(ledger))


@pytest.mark.usefixtures("postgres_only")
def test_a_part_of_the_body_can_be_undone_alone(home: Home, ledger: Ledger) -> None:
    @exactly_once(ledger=ledger, name="pay")
    def careful(receipt: Receipt) -> None:
        receipt.connection.execute(home.insert, ("rent", "kept"))
        with receipt.connection.transaction():
            receipt.connection.execute(home.insert, ("rent", "undone"))
            raise psycopg.Rollback

    careful(execution_id=issued(ledger))

    assert home.effects() == [("rent", "kept")]


@pytest.mark.usefixtures("postgres_only")
def test_what_the_transaction_may_idle_is_one_lease(open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lease="7s")
    limits: list[str] = []

    @exactly_once(ledger=ledger, name="pay")
    def curious(receipt: Receipt) -> None:
        row = receipt.connection.execute("show idle_in_transaction_session_timeout").fetchone()
        limits.append(row[0])

    curious(execution_id=issued(ledger))

    assert limits == ["7s"]


def test_a_body_that_asks_for_no_receipt_is_guarded_too(home: Home, ledger: Ledger) -> None:
    calls: list[int] = []

    @exactly_once(ledger=ledger, name="pay")
    def count(number: int) -> None:
        calls.append(number)

    receipt = issued(ledger)
    count(1, execution_id=receipt)
    count(1, execution_id=receipt)

    assert calls == [1]


def test_code_further_down_finds_the_receipt(home: Home, ledger: Ledger) -> None:
    def note() -> str | None:
        current_receipt().connection.execute(home.insert, ("rent", "deep"))
        return current_receipt().id

    @exactly_once(ledger=ledger, name="pay")
    def pay() -> str | None:
        return note()

    receipt = issued(ledger)

    assert pay(execution_id=receipt) == receipt
    assert home.effects() == [("rent", "deep")]
    with pytest.raises(NotInRun):
        current_receipt()


def test_the_receipt_takes_its_place_among_the_arguments(ledger: Ledger) -> None:
    @exactly_once(ledger=ledger, name="pay")
    def pay(first: int, receipt: Receipt, second: int, *, third: int = 0) -> tuple[int, int, int, int]:
        return first, second, third, receipt.epoch

    assert pay(1, 2, third=3, execution_id=issued(ledger)) == (1, 2, 3, 1)
    assert pay(1, second=2, execution_id=issued(ledger)) == (1, 2, 0, 1)
    assert pay(1, 2) == (1, 2, 0, 0)


def test_the_signature_shows_the_id_and_not_the_receipt(pay: Pay) -> None:
    assert str(inspect.signature(pay)).startswith("(what: str, *, execution_id: str | None = None)")


def test_the_id_has_the_name_that_is_asked_for_and_reaches_a_body_that_wants_it(ledger: Ledger) -> None:
    @exactly_once(ledger=ledger, name="pay", id_argument="permit")
    def pay(permit: str | None = None) -> str | None:
        return permit

    receipt = issued(ledger)

    assert pay(permit=receipt) == receipt
    assert pay(permit=receipt) is None


def test_a_uuid_is_an_id(ledger: Ledger, pay: Pay) -> None:
    number = UUID("018f2f6e-7c3b-7d0a-9a35-0c4f4b8e1a11")
    ledger.issue("pay", ("rent",), execution_id=number)

    assert pay("rent", execution_id=str(number)) == "paid rent"
    assert pay("rent", execution_id=number) is None


@pytest.mark.parametrize("wrong", ["", "x" * 301, "a\0b", "\ud800", 7])
def test_what_cannot_be_an_id_is_refused(pay: Pay, wrong: Any) -> None:
    with pytest.raises(BadRequest, match="is no execution id"):
        pay("rent", execution_id=wrong)


def test_an_unknown_word_for_missing_is_refused(ledger: Ledger) -> None:
    word: Any = "ignore"

    with pytest.raises(DefinitionError, match="'skip' or 'create'"):
        exactly_once(ledger=ledger, missing=word)


# --- async ----------------------------------------------------------------------------------------------


async def test_an_async_function_is_guarded_too(home: Home, ledger: Ledger) -> None:
    @exactly_once(ledger=ledger, name="pay")
    async def pay(what: str, receipt: Receipt) -> str:
        connection = await receipt.aconnection()
        assert receipt.connection is connection
        answer = connection.execute(home.insert, (what, "async"))
        if inspect.isawaitable(answer):
            await answer
        if what == "broken":
            raise ConnectionError
        return what

    receipt = (await ledger.aissue(pay, ("rent",))).id

    with pytest.raises(ConnectionError):
        await pay("broken", execution_id=receipt)
    assert home.effects() == []
    assert await pay("rent", execution_id=receipt) == "rent"
    assert await pay("rent", execution_id=receipt) is None
    assert await pay("more") == "more"
    assert home.effects() == [("more", "async"), ("rent", "async")]


async def test_an_async_body_must_await_its_connection(ledger: Ledger) -> None:
    @exactly_once(ledger=ledger, name="pay")
    async def pay(receipt: Receipt) -> Any:
        return receipt.connection

    with pytest.raises(NotInRun, match="aconnection"):
        await pay(execution_id=(await ledger.aissue(pay)).id)


async def test_an_async_body_whose_claim_was_taken_over_is_rolled_back(home: Home, ledger: Ledger) -> None:
    @exactly_once(ledger=ledger, name="pay")
    async def slow(receipt: Receipt) -> None:
        take_over(ledger, str(receipt.id))
        answer = (await receipt.aconnection()).execute(home.insert, ("rent", "zombie"))
        if inspect.isawaitable(answer):
            await answer

    with pytest.raises(ReceiptLost):
        await slow(execution_id=(await ledger.aissue(slow)).id)

    assert home.effects() == []
