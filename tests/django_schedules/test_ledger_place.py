"""`Ledger("django:ALIAS")`: receipts in the transaction that Django's models are in."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.django.project.shop.models import Mark
from tests.django_schedules.databases import connections
from tests.django_schedules.test_backends import tell

from duly import Ledger, Receipt, exactly_once
from duly.errors import DefinitionError, TransactionEnded, WrongConnection
from duly.ids import new_id
from duly.ledger import ReceiptState

transaction: Any = importlib.import_module("django.db.transaction")
IntegrityError: Any = importlib.import_module("django.db").IntegrityError


@pytest.fixture
def ledger(alias: str) -> Ledger:
    return Ledger(f"django:{alias}", namespace="guard", lease="30s")


@pytest.fixture
def marks(alias: str) -> Any:
    return Mark.objects.using(alias)


@pytest.fixture(autouse=True)
def _no_connection_is_left_by_threads() -> Generator[None, None, None]:
    before = threading.active_count()
    yield
    assert threading.active_count() <= before + 1  # the beat may be at its last pause


def texts(marks: Any) -> list[str]:
    return sorted(marks.values_list("text", flat=True))


def test_models_written_by_a_body_commit_with_its_receipt(ledger: Ledger, marks: Any) -> None:
    @exactly_once(ledger=ledger)
    def pay() -> str:
        marks.create(text="paid")
        return "done"

    receipt = ledger.issue("pay", execution_id=new_id()).id

    assert pay(execution_id=receipt) == "done"
    assert pay(execution_id=receipt) is None
    assert texts(marks) == ["paid"]
    view = ledger.get(receipt)
    assert view is not None
    assert view.state is ReceiptState.COMPLETED


def test_a_body_that_raises_leaves_nothing_and_can_be_delivered_again(ledger: Ledger, marks: Any) -> None:
    fails = [True]

    @exactly_once(ledger=ledger)
    def pay() -> None:
        marks.create(text="paid")
        if fails.pop() if fails else False:
            raise ValueError("no")

    receipt = ledger.issue("pay", execution_id=new_id()).id
    with pytest.raises(ValueError, match="no"):
        pay(execution_id=receipt)
    after_failure = texts(marks)
    pay(execution_id=receipt)

    assert (after_failure, texts(marks)) == ([], ["paid"])


def test_a_receipt_issued_in_an_atomic_block_vanishes_with_it(ledger: Ledger, alias: str) -> None:
    ledger.open()
    sent: list[str] = []
    ledger.hand_over(lambda order: sent.append(order.id))
    kept, dropped = new_id(), new_id()

    with transaction.atomic(using=alias):
        ledger.issue("pay", execution_id=kept)
        sent_before_commit = list(sent)
    with transaction.atomic(using=alias):
        ledger.issue("pay", execution_id=dropped)
        transaction.set_rollback(True, using=alias)

    assert (sent_before_commit, sent) == ([], [kept])
    assert ledger.get(dropped) is None


def test_a_hand_over_that_fails_keeps_no_other_of_the_same_commit_from_its_turn(
    ledger: Ledger, alias: str
) -> None:
    ledger.open()
    sent: list[str] = []
    ids = [new_id() for _ in range(3)]

    @ledger.hand_over
    def send(order: Any) -> None:
        if order.id == ids[0]:
            raise ConnectionError("the queue is away")
        sent.append(order.id)

    with transaction.atomic(using=alias):
        for one in ids:
            ledger.issue("pay", execution_id=one)

    assert sent == ids[1:]


def test_of_two_deliveries_at_once_one_runs_and_the_other_returns_at_once(ledger: Ledger, marks: Any) -> None:
    is_running, may_end = threading.Event(), threading.Event()

    @exactly_once(ledger=ledger)
    def pay() -> str:
        is_running.set()
        assert may_end.wait(60)
        marks.create(text="paid")
        return "mine"

    receipt = ledger.issue("pay", execution_id=new_id()).id
    answers: list[Any] = []

    def deliver() -> None:
        answers.append(pay(execution_id=receipt))
        connections.close_all()

    first = threading.Thread(target=deliver)
    first.start()
    assert is_running.wait(60)
    second = pay(execution_id=receipt)  # while the first is in its body: it must not wait for it
    may_end.set()
    first.join(60)

    assert second is None
    assert answers == ["mine"]
    assert texts(marks) == ["paid"]


@pytest.mark.parametrize("alias", ["default"])
def test_a_body_longer_than_its_lease_may_read_first_and_write_last(alias: str, marks: Any) -> None:
    """A renewal writes to the same file meanwhile: on SQLite a transaction begun by reading could not."""
    marks.all().delete()
    short = Ledger(f"django:{alias}", namespace="guard", lease="2s")

    @exactly_once(ledger=short)
    def pay() -> None:
        assert marks.count() == 0
        threading.Event().wait(2.4)  # several beats
        marks.create(text="paid")

    pay(execution_id=short.issue("pay", execution_id=new_id()).id)

    assert texts(marks) == ["paid"]


def test_a_body_may_take_longer_than_its_lease_before_its_first_statement(alias: str, marks: Any) -> None:
    short = Ledger(f"django:{alias}", namespace="guard", lease="2s")

    @exactly_once(ledger=short)
    def pay() -> None:
        threading.Event().wait(2.4)
        marks.create(text="paid")

    pay(execution_id=short.issue("pay", execution_id=new_id()).id)

    assert texts(marks) == ["paid"]


def test_a_body_cannot_end_the_transaction_of_its_guard(ledger: Ledger, alias: str, marks: Any) -> None:
    @exactly_once(ledger=ledger)
    def pay() -> None:
        marks.create(text="paid")
        with connections[alias].cursor() as cursor:
            cursor.execute("COMMIT")

    receipt = ledger.issue("pay", execution_id=new_id()).id

    with pytest.raises(TransactionEnded):
        pay(execution_id=receipt)


def test_an_error_caught_inside_the_body_is_not_taken_for_success(ledger: Ledger, alias: str) -> None:
    @exactly_once(ledger=ledger)
    def pay() -> None:
        try:
            with transaction.atomic(using=alias, savepoint=False):
                raise IntegrityError("twice")
        except IntegrityError:
            pass

    receipt = ledger.issue("pay", execution_id=new_id()).id

    with pytest.raises(TransactionEnded, match="Let the error out"):
        pay(execution_id=receipt)
    view = ledger.get(receipt)
    assert view is not None
    assert view.state is ReceiptState.PENDING


def test_a_nested_block_of_the_body_can_fail_alone(ledger: Ledger, alias: str, marks: Any) -> None:
    @exactly_once(ledger=ledger)
    def pay() -> None:
        try:
            with transaction.atomic(using=alias):
                marks.create(text="undone")
                raise KeyError
        except KeyError:
            marks.create(text="paid")

    pay(execution_id=ledger.issue("pay", execution_id=new_id()).id)

    assert texts(marks) == ["paid"]


def test_everything_works_inside_the_block_of_a_test_case(ledger: Ledger, alias: str, marks: Any) -> None:
    ledger.open()

    @exactly_once(ledger=ledger)
    def pay(receipt: Receipt) -> None:
        marks.create(text=str(receipt.epoch))

    with transaction.atomic(using=alias):
        receipt = ledger.issue("pay", execution_id=new_id()).id
        pay(execution_id=receipt)
        pay(execution_id=receipt)
        inside = texts(marks)
        transaction.set_rollback(True, using=alias)

    assert inside == ["1"]
    assert texts(marks) == []
    assert ledger.get(receipt) is None


def test_an_async_body_is_refused_with_the_remedy(ledger: Ledger) -> None:
    @exactly_once(ledger=ledger)
    async def pay() -> None: ...

    receipt = ledger.issue("pay", execution_id=new_id()).id

    async def call() -> None:
        await pay(execution_id=receipt)

    import asyncio

    with pytest.raises(DefinitionError, match="plain `def`"):
        asyncio.run(call())


@pytest.mark.postgres
@pytest.mark.parametrize("alias", ["postgres"], indirect=True)
def test_a_connection_that_the_server_cut_off_is_made_anew(ledger: Ledger, alias: str, marks: Any) -> None:
    receipt = ledger.issue("pay", execution_id=new_id()).id
    assert marks.count() == 0  # Django holds a connection now
    pid = connections[alias].connection.info.backend_pid
    with psycopg.connect(connections[alias].connection.info.dsn, autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s)", (pid,))

    view = ledger.get(receipt)

    assert view is not None
    assert view.state is ReceiptState.PENDING


def test_rows_that_are_being_read_go_on_being_read(ledger: Ledger, marks: Any) -> None:
    ledger.open()
    for number in range(5):
        marks.create(text=str(number))

    read: list[str] = []
    for mark in marks.order_by("text").iterator(chunk_size=1):
        ledger.issue("pay", execution_id=new_id())
        read.append(mark.text)

    assert read == ["0", "1", "2", "3", "4"]


def test_a_connection_to_another_database_is_refused(ledger: Ledger) -> None:
    with pytest.raises(WrongConnection, match="pass django"):
        ledger.issue("pay", connection=connections["other"])


def test_a_hook_after_the_commit_that_fails_does_not_run_the_body_again(
    ledger: Ledger, alias: str, marks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise LookupError("after the commit")

    @exactly_once(ledger=ledger)
    def pay() -> None:
        marks.create(text="paid")
        transaction.on_commit(broken, using=alias)

    receipt = ledger.issue("pay", execution_id=new_id()).id
    pay(execution_id=receipt)
    pay(execution_id=receipt)

    assert texts(marks) == ["paid"]
    assert "after the commit" in caplog.text


def test_a_projects_own_tests_run_in_memory_and_leave_nothing(tmp_path: Path) -> None:
    assert tell("in_memory", tmp_path) == {"ran": 2, "fine": True}
