"""A guarded function has its effect once per execution id, and stays out of the way otherwise."""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from tests.ledger.conftest import OpenLedger
from tests.ledger.homes import Home
from tests.stories.arrange import Gate, until

from duly import (
    Ledger,
    Receipt,
    ReceiptBusy,
    ReceiptLost,
    exactly_once,
)
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
    assert took < 30  # the first one would hold it up for a minute
    assert answers == ["first"]
    assert home.effects() == [("rent", "first")]


def test_a_claim_that_was_taken_over_cannot_complete(open_ledger: OpenLedger) -> None:
    ledger = open_ledger()
    receipt = issued(ledger)
    slow = claimed(open_ledger(lease="50ms"), receipt)
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


def await_renewal(ledger: Ledger, receipt: str | None) -> None:
    """What is left of a lease grows only when it is renewed."""
    left: list[timedelta] = []

    def has_grown() -> bool:
        view = ledger.get(str(receipt))
        assert view is not None
        left.append(view.lease_left)
        return left[-1] > left[max(0, len(left) - 2)]

    until(has_grown)


@pytest.mark.usefixtures("quick_beats")
def test_a_long_body_keeps_its_claim(home: Home, ledger: Ledger) -> None:
    @exactly_once(ledger=ledger, name="pay")
    def slow(receipt: Receipt) -> None:
        for _ in range(3):
            await_renewal(ledger, receipt.id)
            assert isinstance(ledger.claim(str(receipt.id), makes_as=None), Refused)
        assert not receipt.is_lost
        receipt.connection.execute(home.insert, ("rent", "slow"))

    receipt = issued(ledger)
    slow(execution_id=receipt)

    assert home.effects() == [("rent", "slow")]


def test_a_body_is_told_when_its_claim_is_lost(open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lease="3s")

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
