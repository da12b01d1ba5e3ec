"""With every kind of connection: the job is there if and only if, and only after, the user commits."""

from __future__ import annotations

from contextlib import suppress

import pytest
from tests.adapters.callers.arrange import Shop
from tests.adapters.callers.kinds import AsyncUser, Undone, User

from duly.errors import DulyError

Pair = tuple[Shop, User]
AsyncPair = tuple[Shop, AsyncUser]

each_way = pytest.mark.parametrize("key", [None, "order:1"], ids=["unkeyed", "keyed"])


@each_way
def test_a_commit_makes_the_job_visible_and_nothing_else_does(pair: Pair, key: str | None) -> None:
    shop, user = pair
    user.write()
    job = shop.ask(user.connection, 1, key)

    before = shop.receipts_meanwhile()
    user.commit()

    assert before == []
    assert shop.receipts() == [1]
    assert job.decision == ("pending" if key else "created")


@each_way
def test_a_request_may_be_the_first_thing_in_a_transaction(pair: Pair, key: str | None) -> None:
    shop, user = pair
    shop.ask(user.connection, 1, key)

    before = shop.receipts_meanwhile()
    user.commit()

    assert (before, shop.receipts()) == ([], [1])


@each_way
def test_a_rollback_leaves_nothing(pair: Pair, key: str | None) -> None:
    shop, user = pair
    user.write()
    shop.ask(user.connection, 1, key)

    user.rollback()

    assert shop.receipts() == []


@each_way
def test_a_request_in_a_savepoint_goes_with_it(pair: Pair, key: str | None) -> None:
    shop, user = pair
    user.write()
    with suppress(Undone), user.savepoint():
        shop.ask(user.connection, 1, key)
        raise Undone
    shop.ask(user.connection, 2, key)

    user.commit()

    assert shop.receipts() == [2]


def test_savepoints_in_savepoints_are_kept_or_undone_each_for_itself(pair: Pair) -> None:
    shop, user = pair
    user.write()
    with user.savepoint():
        shop.ask(user.connection, 1)
        with suppress(Undone), user.savepoint():
            shop.ask(user.connection, 2)
            raise Undone
        with user.savepoint():
            shop.ask(user.connection, 3)

    before = shop.receipts_meanwhile()
    user.commit()

    assert (before, shop.receipts()) == ([], [1, 3])


def test_one_connection_serves_one_transaction_after_another(pair: Pair) -> None:
    shop, user = pair
    for order in (1, 2, 3):
        user.write()
        shop.ask(user.connection, order)
        user.rollback() if order == 2 else user.commit()

    assert shop.receipts() == [1, 3]


def test_many_requests_in_one_call_share_the_fate_of_the_transaction(pair: Pair) -> None:
    shop, user = pair
    using = shop.send_receipt.using(connection=user.connection)
    using.enqueue_many([((order,), {}) for order in range(5)])

    before = shop.receipts_meanwhile()
    user.commit()

    assert (before, shop.receipts()) == ([], [0, 1, 2, 3, 4])


@pytest.mark.parametrize("words", [object(), "x" * 300_000], ids=["unknown type", "too large"])
@each_way
def test_a_request_that_is_refused_leaves_the_transaction_usable(
    pair: Pair, words: object, key: str | None
) -> None:
    shop, user = pair
    user.write()

    with pytest.raises(DulyError):
        shop.send_receipt.using(connection=user.connection, key=key).enqueue(1, words=words)
    shop.ask(user.connection, 2)
    user.commit()

    assert shop.receipts() == [2]


# --- on an event loop -----------------------------------------------------------------------------


@each_way
async def test_an_awaited_commit_makes_the_job_visible(async_pair: AsyncPair, key: str | None) -> None:
    shop, user = async_pair
    await user.write()
    await shop.aask(user.connection, 1, key)

    before = shop.receipts_meanwhile()
    await user.commit()

    assert (before, shop.receipts()) == ([], [1])


@each_way
async def test_a_request_may_be_awaited_first_of_all(async_pair: AsyncPair, key: str | None) -> None:
    shop, user = async_pair
    await shop.aask(user.connection, 1, key)

    before = shop.receipts_meanwhile()
    await user.commit()

    assert (before, shop.receipts()) == ([], [1])


@each_way
async def test_an_awaited_rollback_leaves_nothing(async_pair: AsyncPair, key: str | None) -> None:
    shop, user = async_pair
    await shop.aask(user.connection, 1, key)

    await user.rollback()

    assert shop.receipts() == []


async def test_an_async_savepoint_takes_its_requests_along(async_pair: AsyncPair) -> None:
    shop, user = async_pair
    await user.write()
    with suppress(Undone):
        async with user.savepoint():
            await shop.aask(user.connection, 1)
            raise Undone
    async with user.savepoint():
        await shop.aask(user.connection, 2)

    await user.commit()

    assert shop.receipts() == [2]


async def test_a_failed_request_leaves_an_async_transaction_usable(async_pair: AsyncPair) -> None:
    shop, user = async_pair
    await user.write()

    with pytest.raises(DulyError):
        await shop.send_receipt.using(connection=user.connection).aenqueue(words="x" * 300_000)
    await shop.aask(user.connection, 2)
    await user.commit()

    assert shop.receipts() == [2]
