"""Around queues that are not the database: Duly on Redis, and a real worker of RQ."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.ledger.homes import Home
from tests.servers_redis import RedisServer, private_server
from tests.stories.arrange import until

from duly import Duly, Ledger, Receipt, ReceiptBusy, exactly_once
from duly.ledger import ReceiptState

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.chaos, pytest.mark.redis]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with private_server(tmp_path) as server:
        yield server


@pytest.fixture
def shop(home: Home, redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module, loaded anew with this test's places; programs started from here load it too."""
    monkeypatch.setenv("SHOP_DATABASE", home.url)
    monkeypatch.setenv("SHOP_NAMESPACE", home.namespace)
    monkeypatch.setenv("SHOP_QUEUE", redis.url)
    monkeypatch.setenv("SHOP_SOCKET", str(redis.socket))
    monkeypatch.delitem(sys.modules, "tests.ledger.shop", raising=False)
    shop: Any = importlib.import_module("tests.ledger.shop")
    yield shop
    shop.app.close()
    shop.ledger.close()
    monkeypatch.delitem(sys.modules, "tests.ledger.shop", raising=False)


def work(**variables: str) -> int:
    """A worker of Duly, until nothing is due."""
    return run("duly", "worker", "tests.ledger.shop:app", "--burst", **variables)


def run(*words: str, **variables: str) -> int:
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, env={**os.environ, **variables}, timeout=100, check=False
    )
    return done.returncode


# --- Duly on Redis --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("point", "effects"), [("before_settle", 0), ("after_settle", 1)])
def test_a_job_on_redis_whose_worker_dies_beside_its_commit_has_one_effect(
    home: Home, shop: Any, point: str, effects: int
) -> None:
    job = shop.charge.enqueue("rent")

    run(
        "duly",
        "worker",
        "tests.ledger.shop:app",
        "--burst",
        DULY_FAILPOINTS=f"{point}=exit task=charge nth=1",
    )
    after_death = len(home.effects())
    until(lambda: run("duly", "worker", "tests.ledger.shop:app", "--burst") == 0 and job.state() == "done")

    assert after_death == effects
    assert [what for what, _ in home.effects()] == ["rent"]


def test_a_job_whose_receipt_is_claimed_elsewhere_comes_back_later(home: Home, shop: Any) -> None:
    job = shop.charge.enqueue("rent")
    shop.ledger.claim(f"{job.id}-0/charge", makes_as="charge")  # a worker that was cut off from Redis

    until(lambda: run("duly", "worker", "tests.ledger.shop:app", "--burst") == 0 and job.state() == "done")

    assert [what for what, _ in home.effects()] == ["rent"]
    (view,) = shop.app.jobs.list(task="charge")
    assert view.attempt <= 1


def test_two_functions_in_one_run_have_a_receipt_each(home: Home, ledger: Ledger) -> None:
    app = Duly("memory://")

    def make(name: str) -> Any:
        @exactly_once(ledger=ledger, name=name)
        def write(receipt: Receipt) -> None:
            receipt.connection.execute(home.insert, (name, "run"))

        return write

    first, second = make("first"), make("second")

    @app.task
    def both() -> None:
        first()
        second()
        first()  # of this run already: skipped

    both.enqueue()
    app.run(burst=True)

    assert home.effects() == [("first", "run"), ("second", "run")]
    assert ledger.count()[ReceiptState.COMPLETED] == 2


def test_a_run_that_must_come_back_spends_no_attempt(home: Home, ledger: Ledger) -> None:
    app = Duly("memory://")
    refused: list[str] = []

    @exactly_once(ledger=ledger, name="pay")
    def pay() -> None: ...

    @app.task
    def work() -> None:
        try:
            pay()
        except ReceiptBusy as busy:
            refused.append(str(busy))
            raise

    job = work.enqueue()
    ledger.claim(f"{job.id}-0/pay", makes_as="pay")
    app.run(burst=True)

    (view,) = app.jobs.list(task=work)
    assert len(refused) == 1
    assert (view.state, view.attempt, view.deferrals) == ("waiting", 0, 1)


# --- RQ -------------------------------------------------------------------------------------------------


def rq_worker(redis: RedisServer, **variables: str) -> int:
    """A real worker, which forks for every job, until its queue is empty."""
    return run("rq.cli", "worker", "--burst", "--quiet", "--url", redis.url, **variables)


def test_an_rq_job_that_is_delivered_three_times_pays_once(home: Home, shop: Any, redis: RedisServer) -> None:
    receipt = shop.ledger.issue("pay", ("rent",)).id
    order = shop.HandOver(receipt, "pay", '[["rent"],{}]', 2)
    shop.enqueue(order)
    shop.enqueue(order)

    assert rq_worker(redis) == 0

    view = shop.ledger.get(receipt)
    assert [what for what, _ in home.effects()] == ["rent"]
    assert view.state is ReceiptState.COMPLETED


def test_an_rq_worker_that_dies_after_its_effect_is_made_up_for(
    home: Home, shop: Any, redis: RedisServer
) -> None:
    with closing(home.connect()) as connection:
        receipt = shop.ledger.issue("pay", ("rent",), connection=connection).id
        connection.commit()
    shop.ledger.deliver(receipt)
    rq_worker(redis, DULY_FAILPOINTS="before_settle=exit task=pay nth=1")
    after_death = home.effects()

    def is_paid() -> bool:
        shop.ledger.sweep()
        rq_worker(redis)
        return shop.ledger.get(receipt).state is ReceiptState.COMPLETED

    until(is_paid)

    assert after_death == []
    assert [what for what, _ in home.effects()] == ["rent"]


def test_a_plain_call_and_a_plain_job_are_not_guarded(home: Home, shop: Any, redis: RedisServer) -> None:
    from rq import Queue

    queue: Any = Queue(connection=shop.queue_connection())
    queue.enqueue(shop.pay, "job")
    shop.pay("call")

    assert rq_worker(redis) == 0
    assert [what for what, _ in home.effects()] == ["call", "job"]
    assert sum(shop.ledger.count().values()) == 0
