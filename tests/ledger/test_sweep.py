"""Any process may sweep: what got lost is handed over again, without storms, and what is done goes away."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

import pytest
from tests.ledger.conftest import OpenLedger
from tests.ledger.homes import Home
from tests.ledger.test_guard import claimed
from tests.stories.arrange import until

from duly import DefinitionError, HandOver, Ledger, exactly_once
from duly.ledger import ReceiptState, ReceiptView, Swept


def issue_silently(ledger: Ledger, home: Home, name: str = "pay") -> str:
    """Committed, and then the process died before anything was handed over."""
    with closing(home.connect()) as connection:
        receipt = ledger.issue(name, connection=connection).id
        connection.commit()
    return receipt


def seen(ledger: Ledger, receipt: str) -> ReceiptView:
    view = ledger.get(receipt)
    assert view is not None
    return view


def swept(ledger: Ledger, enough: Callable[[Swept], bool], sent: list[str]) -> Swept:
    """Sweep until something has happened."""

    def once() -> Swept | None:
        found = ledger.sweep(hand_over=lambda order: sent.append(order.id))
        return found if enough(found) else None

    return until(once)


# --- handing over again ---------------------------------------------------------------------------------


def test_a_lost_hand_over_is_made_up_for_after_the_bound_and_not_before(
    home: Home, open_ledger: OpenLedger
) -> None:
    ledger = open_ledger(lost_after="2s")
    sent: list[str] = []
    began = time.monotonic()
    receipt = issue_silently(ledger, home)

    swept(ledger, lambda found: found.handed_over == 1, sent)

    assert time.monotonic() - began >= 2
    assert sent == [receipt]


def test_what_was_handed_over_is_left_alone_for_a_while(home: Home, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lost_after="1ms")
    sent: list[str] = []
    issue_silently(ledger, home)
    swept(ledger, lambda found: found.handed_over == 1, sent)

    again = [ledger.sweep(hand_over=lambda order: sent.append(order.id)) for _ in range(20)]

    assert sum(found.handed_over for found in again) == 0
    assert len(sent) == 1


def test_a_claim_that_ended_undone_is_handed_over_again(home: Home, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lost_after="1ms", redeliver_after="1h", lease="2s")
    sent: list[str] = []
    receipt = issue_silently(ledger, home)
    swept(ledger, lambda found: found.handed_over == 1, sent)
    began = time.monotonic()
    claimed(ledger, receipt)  # and its worker dies

    swept(ledger, lambda found: found.handed_over == 1, sent)

    assert time.monotonic() - began >= 2
    assert sent == [receipt, receipt]


def test_after_three_hand_overs_it_is_exhausted_visible_and_kept(home: Home, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lost_after="1ms", redeliver_after="1ms", keep_for=0)
    sent: list[str] = []
    receipt = issue_silently(ledger, home)

    swept(ledger, lambda found: found.exhausted == 1, sent)
    ledger.sweep(hand_over=lambda order: sent.append(order.id))

    (view,) = ledger.list("exhausted")
    assert sent == [receipt] * 3
    assert (view.id, view.hand_overs, view.next_at) == (receipt, 3, None)
    assert ledger.count()[ReceiptState.EXHAUSTED] == 1


def test_a_late_delivery_of_an_exhausted_receipt_still_runs(home: Home, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lost_after="1ms", redeliver_after="1ms", max_hand_overs=1)
    receipt = issue_silently(ledger, home)
    swept(ledger, lambda found: found.exhausted == 1, [])

    @exactly_once(ledger=ledger, name="pay")
    def pay() -> str:
        return "paid"

    assert pay(execution_id=receipt) == "paid"
    assert seen(ledger, receipt).state is ReceiptState.COMPLETED


def test_an_operator_can_have_an_exhausted_receipt_handed_over_again(
    home: Home, open_ledger: OpenLedger
) -> None:
    ledger = open_ledger(lost_after="1ms", redeliver_after="1ms", max_hand_overs=1)
    sent: list[str] = []
    receipt = issue_silently(ledger, home)
    swept(ledger, lambda found: found.exhausted == 1, sent)

    assert ledger.retry(receipt) is True
    assert ledger.retry(receipt) is False  # it is pending now
    swept(ledger, lambda found: found.handed_over == 1, sent)

    assert sent == [receipt, receipt]


def test_a_hand_over_that_raises_is_not_counted_and_hides_no_other(
    home: Home, open_ledger: OpenLedger, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = open_ledger(lost_after="50ms", redeliver_after="1h", max_hand_overs=1)
    bad = issue_silently(ledger, home, "bad")
    good = issue_silently(ledger, home, "good")
    sent: list[str] = []

    def deliver(order: HandOver) -> None:
        if order.name == "bad":
            raise ConnectionError("no queue")
        sent.append(order.id)

    until(lambda: ledger.sweep(hand_over=deliver).failed and sent)
    until(lambda: ledger.sweep(hand_over=deliver).failed)

    assert sent == [good]
    assert (seen(ledger, bad).hand_overs, seen(ledger, bad).state) == (0, ReceiptState.PENDING)
    assert "no queue" in caplog.text


def test_a_body_that_raised_is_handed_over_again_if_its_queue_does_not_retry(
    home: Home, open_ledger: OpenLedger
) -> None:
    ledger = open_ledger(lost_after="1ms", redeliver_after="200ms")
    sent: list[str] = []
    receipt = issue_silently(ledger, home)
    swept(ledger, lambda found: found.handed_over == 1, sent)

    @exactly_once(ledger=ledger, name="pay")
    def pay() -> None:
        raise ConnectionError

    with suppress(ConnectionError):
        pay(execution_id=receipt)
    swept(ledger, lambda found: found.handed_over == 1, sent)

    assert sent == [receipt, receipt]


def test_what_was_completed_is_not_handed_over_again(home: Home, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lost_after="1ms", redeliver_after="1ms", lease="3s")
    receipt = issue_silently(ledger, home)

    @exactly_once(ledger=ledger, name="pay")
    def pay() -> None: ...

    pay(execution_id=receipt)
    sent: list[str] = []

    def is_at_rest() -> bool:
        ledger.sweep(hand_over=lambda order: sent.append(order.id))
        return seen(ledger, receipt).next_at is None

    until(is_at_rest)

    assert sent == []
    assert seen(ledger, receipt).state is ReceiptState.COMPLETED


def test_more_than_a_batch_is_handed_over_in_one_sweep(home: Home, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lost_after="1ms")
    with closing(home.connect()) as connection:
        issued = {ledger.issue("pay", connection=connection).id for _ in range(130)}
        connection.commit()
    time.sleep(0.002)
    sent: list[str] = []

    found = ledger.sweep(hand_over=lambda order: sent.append(order.id))

    assert found.handed_over == 130
    assert set(sent) == issued
    assert len(sent) == 130


def test_of_eight_sweepers_one_hands_over(home: Home, open_ledger: OpenLedger) -> None:
    ledgers = [open_ledger() for _ in range(8)]
    hasty = open_ledger(lost_after="1ms")
    receipts = {issue_silently(hasty, home) for _ in range(5)}
    time.sleep(0.002)
    sent: list[str] = []
    together = threading.Barrier(8)

    def sweep(ledger: Ledger) -> None:
        together.wait()
        ledger.sweep(hand_over=lambda order: sent.append(order.id))

    threads = [threading.Thread(target=sweep, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(sent) == sorted(receipts)


def test_a_sweep_that_cannot_hand_over_says_so(home: Home, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lost_after="1ms")
    issue_silently(ledger, home)
    time.sleep(0.002)

    with pytest.raises(DefinitionError, match=r"@ledger\.hand_over"):
        ledger.sweep()


# --- going away -----------------------------------------------------------------------------------------


def test_completed_receipts_go_after_their_time_and_pending_ones_stay(
    home: Home, open_ledger: OpenLedger
) -> None:
    ledger = open_ledger(keep_for="2s")

    @exactly_once(ledger=ledger, name="pay")
    def pay() -> None: ...

    done, waiting = issue_silently(ledger, home), issue_silently(ledger, home)
    began = time.monotonic()
    pay(execution_id=done)

    until(lambda: ledger.sweep().pruned)

    assert time.monotonic() - began >= 2
    assert ledger.get(done) is None
    assert seen(ledger, waiting).state is ReceiptState.PENDING
    assert pay(execution_id=done) is None  # a very late duplicate finds nothing to run


def test_what_a_delivery_made_and_nobody_completed_goes_too(open_ledger: OpenLedger) -> None:
    ledger = open_ledger(keep_for="1ms", lease="2s")
    began = time.monotonic()
    ledger.claim("order-17", makes_as="pay")

    until(lambda: ledger.sweep().pruned)

    assert time.monotonic() - began >= 2  # its claim was valid
    assert ledger.get("order-17") is None


@pytest.mark.usefixtures("sqlite_only")
def test_a_long_log_is_written_back(home: Home, open_ledger: OpenLedger) -> None:
    with closing(sqlite3.connect(home.path)) as reader:
        reader.execute("pragma journal_mode=wal").fetchone()
        reader.execute("pragma wal_autocheckpoint=0").fetchone()
        reader.execute("create table ballast (bytes blob)")
        for _ in range(6):
            reader.execute("insert into ballast values (zeroblob(1000000))")
            reader.commit()
        before = main_file_size(reader)

        open_ledger().sweep()

        assert before < 1_000_000 < main_file_size(reader)


def main_file_size(connection: sqlite3.Connection) -> int:
    (name,) = (row[2] for row in connection.execute("pragma database_list"))
    with open(name, "rb") as file:
        return file.seek(0, 2)


# --- again and again ------------------------------------------------------------------------------------


def test_a_thread_keeps_sweeping_until_it_is_stopped(home: Home, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lost_after="1ms")
    sent: list[str] = []
    ledger.hand_over(lambda order: sent.append(order.id))

    with ledger.keep_sweeping("20ms") as sweeper:
        receipt = issue_silently(ledger, home)
        until(lambda: sent == [receipt])

    issue_silently(ledger, home)
    time.sleep(0.1)
    assert sent == [receipt]
    assert sweeper is not None


async def test_a_loop_keeps_sweeping_until_it_is_cancelled(home: Home, open_ledger: OpenLedger) -> None:
    ledger = open_ledger(lost_after="1ms")
    sent: list[str] = []
    ledger.hand_over(lambda order: sent.append(order.id))
    receipt = await asyncio.to_thread(issue_silently, ledger, home)

    sweeping = asyncio.create_task(ledger.akeep_sweeping("20ms"))
    while not sent:
        await asyncio.sleep(0.01)
    sweeping.cancel()

    assert sent == [receipt]


def test_a_sweep_that_fails_is_tried_again(
    home: Home, open_ledger: OpenLedger, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = open_ledger(lost_after="1ms")
    receipt = issue_silently(ledger, home)
    sent: list[str] = []

    with ledger.keep_sweeping("20ms"):
        until(lambda: "nobody said how" in caplog.text)
        ledger.hand_over(lambda order: sent.append(order.id))
        until(lambda: sent == [receipt])
