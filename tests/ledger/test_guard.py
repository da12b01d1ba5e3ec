"""A guarded function has its effect once per execution id, and stays out of the way otherwise."""

from __future__ import annotations

import inspect
import logging
import pickle
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.ledger.conftest import OpenLedger
from tests.ledger.homes import Home
from tests.stories.arrange import Gate, until

from duly import (
    BadRequest,
    DefinitionError,
    Ledger,
    Receipt,
    ReceiptBusy,
    ReceiptLost,
    current_receipt,
    exactly_once,
)
from duly.errors import NotInRun, TransactionEnded
from duly.ledger import ReceiptState
from duly.ledger.values import Mark, Refused

Pay = Callable[..., Any]


@pytest.fixture
def pay(home: Home, ledger: Ledger) -> Pay:
    return make_pay(home, ledger)


def make_pay(home: Home, ledger: Ledger, **options: Any) -> Pay:
    @exactly_once(ledger=ledger, name="pay", **options)
    def pay(what: str, receipt: Receipt) -> str:
        receipt.connection.execute(home.insert, (what, "body"))
        if what == "broken":
            raise ConnectionError("the bank is closed")
        return f"paid {what}"

    return pay


def issued(ledger: Ledger, what: str = "rent") -> str:
    return ledger.issue("pay", (what,)).id


# --- one effect ---------------------------------------------------------------------------------------


def test_a_delivery_has_its_effect_and_completes_the_receipt(home: Home, ledger: Ledger, pay: Pay) -> None:
    receipt = issued(ledger)

    result = pay("rent", execution_id=receipt)

    view = ledger.get(receipt)
    assert result == "paid rent"
    assert home.effects() == [("rent", "body")]
    assert view is not None
    assert (view.state, view.epoch) == (ReceiptState.COMPLETED, 1)
    assert view.completed_at is not None
    assert view.completed_at >= view.created_at


def test_a_second_delivery_is_skipped_and_says_so(
    home: Home, ledger: Ledger, pay: Pay, caplog: pytest.LogCaptureFixture
) -> None:
    receipt = issued(ledger)
    pay("rent", execution_id=receipt)
    caplog.set_level(logging.INFO, "duly.ledger")

    assert pay("rent", execution_id=receipt) is None

    assert home.effects() == [("rent", "body")]
    assert f"delivery of receipt {receipt} to pay skipped: completed" in caplog.text


def test_a_delivery_without_a_receipt_is_skipped(home: Home, pay: Pay) -> None:
    assert pay("rent", execution_id="pruned long ago") is None

    assert home.effects() == []


def test_a_call_without_an_id_runs_normally_each_time(home: Home, ledger: Ledger, pay: Pay) -> None:
    assert [pay("rent"), pay("rent")] == ["paid rent", "paid rent"]

    assert len(home.effects()) == 2
    assert sum(ledger.count().values()) == 0


def test_a_call_without_an_id_that_raises_keeps_nothing(home: Home, pay: Pay) -> None:
    with pytest.raises(ConnectionError):
        pay("broken")

    assert home.effects() == []


def test_a_body_that_raises_keeps_nothing_and_can_run_again_at_once(
    home: Home, ledger: Ledger, pay: Pay
) -> None:
    receipt = issued(ledger)

    with pytest.raises(ConnectionError):
        pay("broken", execution_id=receipt)

    assert home.effects() == []
    assert pay("rent", execution_id=receipt) == "paid rent"
    view = ledger.get(receipt)
    assert view is not None
    assert view.epoch == 2


def test_a_duplicate_returns_at_once_while_the_first_is_running(home: Home, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lease="30s")
    gate = Gate()

    @exactly_once(ledger=ledger, name="pay")
    def slow(receipt: Receipt) -> str:
        receipt.connection.execute(home.insert, ("rent", "first"))
        gate.wait_here()
        return "first"

    receipt = issued(ledger)
    answers: list[str | None] = []
    first = threading.Thread(target=lambda: answers.append(slow(execution_id=receipt)))
    first.start()
    gate.reached()

    began = time.monotonic()
    second = slow(execution_id=receipt)
    took = time.monotonic() - began
    gate.open()
    first.join()

    assert second is None
    assert took < 2
    assert answers == ["first"]
    assert home.effects() == [("rent", "first")]


def test_a_claim_that_was_taken_over_cannot_complete(open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lease="50ms")
    receipt = issued(ledger)
    slow = claimed(ledger, receipt)
    until(lambda: not is_claimed(ledger, receipt))
    fast = claimed(ledger, receipt)

    assert ledger.run(ledger.operations.complete(slow)) is False
    assert ledger.run(ledger.operations.renew([slow, fast])) == {fast}
    assert ledger.run(ledger.operations.release(slow)) is False
    assert ledger.run(ledger.operations.complete(fast)) is True


def test_a_claim_whose_answer_was_lost_can_be_repeated(ledger: Ledger) -> None:
    receipt = issued(ledger)
    operation = ledger.operations.claim(receipt, "the same mark")

    first, second = ledger.run(operation), ledger.run(operation)

    assert first == second == Mark(receipt, 1, "the same mark")


def test_of_two_claims_that_saw_the_receipt_free_one_gets_it(home: Home, ledger: Ledger) -> None:
    receipt = issued(ledger)
    slow = ledger.operations.claim(receipt, "slow").steps()
    look = next(slow)

    with closing(home.connect()) as connection:
        rows = connection.execute(look.text, look.parameters).fetchall()
        fast = claimed(ledger, receipt)
        take = slow.send(rows)
        taken = connection.execute(take.text, take.parameters).fetchall()

    assert taken == []
    assert ledger.run(ledger.operations.complete(fast)) is True


def test_a_body_whose_claim_was_taken_over_is_rolled_back(home: Home, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lease="30s")

    @exactly_once(ledger=ledger, name="pay")
    def slow(receipt: Receipt) -> None:
        assert receipt.id is not None
        take_over(ledger, receipt.id)
        receipt.connection.execute(home.insert, ("rent", "zombie"))

    receipt = issued(ledger)
    with pytest.raises(ReceiptLost, match="rolled back"):
        slow(execution_id=receipt)

    assert home.effects() == []


def claimed(ledger: Ledger, receipt: str) -> Mark:
    answer = ledger.claim(receipt, makes_as=None)
    assert isinstance(answer, Mark)
    return answer


def is_claimed(ledger: Ledger, receipt: str) -> bool:
    view = ledger.get(receipt)
    return view is not None and view.is_claimed


def take_over(ledger: Ledger, receipt: str) -> Mark:
    """What happens to a worker that is frozen for longer than its lease."""
    view = ledger.get(receipt)
    assert view is not None
    assert view.mark is not None
    ledger.run(ledger.operations.release(Mark(receipt, view.epoch, view.mark)))
    return claimed(ledger, receipt)


def test_a_long_body_keeps_its_claim(home: Home, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lease="1500ms")

    @exactly_once(ledger=ledger, name="pay")
    def slow(receipt: Receipt) -> None:
        until_over = time.monotonic() + 2.5
        while time.monotonic() < until_over:
            assert isinstance(ledger.claim(str(receipt.id), makes_as=None), Refused)
        assert not receipt.is_lost
        receipt.connection.execute(home.insert, ("rent", "slow"))

    receipt = issued(ledger)
    slow(execution_id=receipt)

    assert home.effects() == [("rent", "slow")]


def test_a_body_is_told_when_its_claim_is_lost(open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lease="300ms")

    @exactly_once(ledger=ledger, name="pay")
    def slow(receipt: Receipt) -> None:
        take_over(ledger, str(receipt.id))
        until(lambda: receipt.is_lost)

    with pytest.raises(ReceiptLost):
        slow(execution_id=issued(ledger))


# --- receipts that a delivery makes -------------------------------------------------------------------


def test_with_create_the_first_delivery_makes_the_receipt(home: Home, ledger: Ledger) -> None:
    pay = make_pay(home, ledger, missing="create")

    first, second = pay("rent", execution_id="order-17"), pay("rent", execution_id="order-17")

    assert (first, second) == ("paid rent", None)
    assert home.effects() == [("rent", "body")]


def test_with_create_a_failed_delivery_leaves_no_receipt(home: Home, ledger: Ledger) -> None:
    pay = make_pay(home, ledger, missing="create")

    with pytest.raises(ConnectionError):
        pay("broken", execution_id="order-17")

    assert ledger.get("order-17") is None
    assert pay("rent", execution_id="order-17") == "paid rent"


def test_with_create_a_duplicate_of_a_running_one_is_told_to_come_back(home: Home, ledger: Ledger) -> None:
    pay = make_pay(home, ledger, missing="create")
    ledger.claim("order-17", makes_as="pay")

    with pytest.raises(ReceiptBusy, match="'order-17' is claimed elsewhere") as raised:
        pay("rent", execution_id="order-17")

    assert timedelta(0) < raised.value.wait <= timedelta(seconds=30)
    assert home.effects() == []


@pytest.mark.parametrize("error", [ReceiptBusy("order-17", timedelta(seconds=3)), ReceiptLost("order-17", 2)])
def test_its_errors_survive_the_way_through_a_queue(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


# --- what the body sees -------------------------------------------------------------------------------


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
