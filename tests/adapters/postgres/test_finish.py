"""finish: the short way to end an exactly-once run. It ends and commits what is simply done, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.adapters.postgres.arrange import KEY, LEASE, claim, find, put, request
from tests.contract.arrange import cancel

from duly.job import Claim, State
from duly.lifecycle import Done, Fail
from duly.stores.contract import Settlement
from duly.stores.postgres import PostgresStore
from duly.stores.postgres.operations.fences import new_seed, secret
from duly.transactions.postgres import PostgresSource, PostgresTransaction


@pytest.fixture
def source(store: PostgresStore) -> Iterator[PostgresSource]:
    made = PostgresSource(store, LEASE)
    yield made
    made.close()


@pytest.fixture
def transaction(source: PostgresSource) -> Iterator[PostgresTransaction]:
    """One whose body has made its first statement."""
    lent = source.lend("run-1")
    lent.connection.execute("select 1")
    yield lent
    lent.roll_back()
    lent.give_back()


def start(store: PostgresStore, key: str | None = None) -> Claim:
    put(store, request(key))
    [lent] = claim(store)
    return lent


def finish(transaction: PostgresTransaction, lent: Claim) -> bool:
    return transaction.finish("w1", Settlement(lent.fence, Done()))


def test_what_is_simply_done_ends_and_is_committed(
    store: PostgresStore, transaction: PostgresTransaction
) -> None:
    lent = start(store)

    assert finish(transaction, lent)

    [job] = find(store, lent.id)
    assert (job.state, job.epoch) == (State.DONE, lent.epoch)


def later_epoch(_store: PostgresStore, lent: Claim) -> Claim:
    return lent._replace(epoch=lent.epoch + 1)


def other_seed(_store: PostgresStore, lent: Claim) -> Claim:
    return lent._replace(nonce=secret(new_seed(), lent.generation, has_serial=False))


def ended(store: PostgresStore, lent: Claim) -> Claim:
    store.run(store.settle("w1", [Settlement(lent.fence, Fail("boom"))]))
    return lent


def cancelled(store: PostgresStore, lent: Claim) -> Claim:
    cancel(store, lent.id)
    return lent


def behind_a_notice(store: PostgresStore, lent: Claim) -> Claim:
    store.run(store.seal("move", "elsewhere"))
    return lent


@pytest.mark.parametrize("happens", [later_epoch, other_seed, ended, cancelled, behind_a_notice])
def test_whatever_needs_a_decision_is_left_as_it_is(
    store: PostgresStore,
    transaction: PostgresTransaction,
    happens: Callable[[PostgresStore, Claim], Claim],
) -> None:
    lent = happens(store, start(store))
    before = find(store, lent.id)

    assert not finish(transaction, lent)

    assert find(store, lent.id) == before
    assert transaction.connection.execute("select 2").fetchone() == (2,)  # where the body left it


def test_a_run_with_a_key_and_other_verdicts_are_for_settle(
    store: PostgresStore, transaction: PostgresTransaction
) -> None:
    keyed, plain = start(store, KEY), start(store)

    assert not finish(transaction, keyed)
    assert not transaction.finish("w1", Settlement(plain.fence, Fail("boom")))
    assert not transaction.finish("w1", Settlement(plain.fence, Done("1")))
    assert not transaction.finish("w1", Settlement(plain.fence, Done(), then=(request(),)))

    assert finish(transaction, plain)


def test_a_connection_that_forgot_the_statements_settles_step_by_step(
    store: PostgresStore, transaction: PostgresTransaction
) -> None:
    lent = start(store)
    transaction.connection.execute("deallocate all")

    assert not finish(transaction, lent)
    assert transaction.settle(store.settle("w1", [Settlement(lent.fence, Done())]))
    transaction.commit()

    [job] = find(store, lent.id)
    assert job.state is State.DONE
