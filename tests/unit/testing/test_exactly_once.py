"""Exactly-once tasks in a virtual world: on the test's own transaction, with the same endings."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from duly import Duly, Run
from duly.testing import virtual


class Shop:
    """An application and the table its bodies write to."""

    def __init__(self, folder: Path) -> None:
        self.app = Duly("postgresql://nowhere/shop")
        self.database = sqlite3.connect(folder / "shop.db", isolation_level=None)
        self.database.execute("create table charges (amount int)")
        self.receipts: list[int] = []

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection, None, None]:
        self.database.execute("begin")
        try:
            yield self.database
        except BaseException:
            self.database.execute("rollback")
            raise
        self.database.execute("commit")

    def charges(self) -> list[int]:
        return [amount for (amount,) in self.database.execute("select amount from charges")]


@pytest.fixture
def shop(tmp_path: Path) -> Generator[Shop, None, None]:
    shop = Shop(tmp_path)
    yield shop
    shop.database.close()


@pytest.fixture
def charge(shop: Shop) -> Any:
    @shop.app.task
    def receipt(amount: int) -> None:
        shop.receipts.append(amount)

    @shop.app.task(name="charge", delivery="exactly_once")
    def charge(run: Run, amount: int) -> None:
        run.connection.execute("insert into charges values (?)", (amount,))
        assert receipt.enqueue(amount).decision == "pending"
        if amount < 0:
            raise ValueError("no credit")

    return charge


def test_effects_and_requests_stay_if_the_run_completes(shop: Shop, charge: Any) -> None:
    with virtual(shop.app, transactions=shop.transaction) as clock:
        charge.enqueue(7)
        charge.enqueue(-7)
        outcomes = [ran.outcome for ran in clock.run_due()]

    assert sorted(outcomes) == ["done", "done", "fail"]
    assert (shop.charges(), shop.receipts) == ([7], [7])


@pytest.mark.parametrize("point", ["before_settle", "after_settle"])
def test_a_worker_that_dies_before_its_commit_leaves_nothing(shop: Shop, charge: Any, point: Any) -> None:
    with virtual(shop.app, transactions=shop.transaction) as clock:
        job = charge.enqueue(7)
        with clock.crash_at(point, task="charge", nth=1):
            clock.run_due()
        after_death = shop.charges()
        clock.run_until("5m")
        state = job.state()

    assert after_death == ([] if point == "before_settle" else [7])
    assert (shop.charges(), state) == ([7], "done")


def test_a_zombies_effect_is_rolled_back(shop: Shop, charge: Any) -> None:
    with virtual(shop.app, transactions=shop.transaction) as clock:
        job = charge.enqueue(7)
        with clock.freeze_at("before_body", task="charge") as frozen:
            clock.run_due()
            clock.run_until("5m")
            late = frozen.thaw()
        state = job.state()

    assert (late.outcome, state, shop.charges()) == ("lost", "done", [7])


async def test_an_async_body_awaits_what_the_test_gives(shop: Shop) -> None:
    class Awaited:
        async def execute(self, text: str) -> None:
            shop.database.execute(text)

    @shop.app.task(delivery="exactly_once")
    async def charge(run: Run) -> None:
        await run.connection.execute("insert into charges values (7)")

    with virtual(shop.app, transactions=lambda: nullcontext(Awaited())) as clock:
        charge.enqueue()
        (ran,) = await clock.arun_due()

    assert (ran.outcome, shop.charges()) == ("done", [7])


def test_without_a_database_the_error_says_how_to_give_one(shop: Shop, charge: Any) -> None:
    with virtual(shop.app) as clock:
        charge.enqueue(7)
        (ran,) = clock.run_due()

    assert "virtual(app, transactions=" in (ran.error or "")


def test_a_plain_call_has_no_transaction(shop: Shop, charge: Any) -> None:
    with pytest.raises(Exception, match="needs a worker"):
        charge(7)
