"""Tasks of Duly on a real Celery worker and a real Redis."""

from __future__ import annotations

import base64
import importlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.servers_redis import RedisServer, private_server
from tests.stories.arrange import until

from duly import Decision, JobFailed, Retry, Run, StoreUnavailable
from duly.errors import BadRequest, DefinitionError, ResultNotKept
from duly.integrations.celery import OnCelery

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.redis, pytest.mark.chaos]


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory(prefix="duly-celery-") as folder, private_server(Path(folder)) as server:
        yield server


@pytest.fixture(scope="module")
def shop(redis: RedisServer) -> Iterator[Any]:
    """The module in this process, and one Celery worker that serves it for all tests here."""
    os.environ |= {"SHOP_FOLDER": str(redis.folder), "SHOP_SOCKET": str(redis.socket)}
    sys.modules.pop("tests.integrations.celery_shop", None)
    shop: Any = importlib.import_module("tests.integrations.celery_shop")
    with closing(sqlite3.connect(redis.folder / "shop.db")) as database:
        database.execute("create table charges (what text)")
    shop.ledger.open()
    worker = start_worker(redis.folder / "worker.log")
    yield shop
    worker.send_signal(signal.SIGTERM)
    worker.wait(60)
    shop.ledger.close()
    shop.celery.close()


def start_worker(log: Path) -> subprocess.Popen[bytes]:
    words = ["-A", "tests.integrations.celery_shop:celery", "worker", "-c", "2", "--loglevel", "WARNING"]
    command = [sys.executable, "-m", "celery", *words, "--without-gossip", "--without-mingle"]
    with log.open("wb") as file:
        return subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=file)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A file for what the bodies of this test note."""
    return f"{request.node.name}.txt"


# --- working ----------------------------------------------------------------------------------------


def test_a_task_declared_for_duly_runs_on_celery(shop: Any) -> None:
    job = shop.add.enqueue(40, 2)

    assert job.decision is Decision.CREATED
    assert job.result(timeout="60s") == 42
    assert job.state() == "done"


def test_an_async_task_gets_its_run_and_its_callers_context(shop: Any, name: str) -> None:
    shop.outer.enqueue(name)

    assert until(lambda: shop.noted(name)) == ["hello inner, attempt 1, for 7"]


def test_results_are_not_stored_unless_asked_for(shop: Any, redis: RedisServer, name: str) -> None:
    job = shop.save.enqueue(name, 1)
    until(lambda: shop.noted(name))

    with pytest.raises(ResultNotKept):
        job.result()
    with redis.client() as client:
        assert not client.exists(f"celery-task-meta-{job.id}")


def test_a_plain_call_needs_no_celery(shop: Any) -> None:
    assert shop.add(1, 2) == 3


def test_arguments_that_do_not_fit_are_refused_at_enqueue(shop: Any) -> None:
    with pytest.raises(BadRequest, match="cannot be called like that"):
        shop.add.enqueue(1)


def test_redacted_arguments_are_in_no_event_of_celerys(shop: Any, name: str, redis: RedisServer) -> None:
    shop.sign_in.using(queue_name="nobody serves this").enqueue(name, "hunter2")
    shop.save.using(queue_name="nobody serves this").enqueue(name, 1)

    with redis.client() as client:
        texts = client.lrange("nobody serves this", 0, -1)
    said = {
        message["headers"]["task"]: message["headers"]["kwargsrepr"] for message in map(json.loads, texts)
    }
    assert said[shop.sign_in.name] == "…"
    assert name in said[shop.save.name]


def test_nor_are_they_when_it_is_tried_again(shop: Any, name: str, redis: RedisServer) -> None:
    shop.sign_in.enqueue(name, "hunter2")
    until(lambda: shop.noted(name))

    with redis.client() as client:
        held = until(lambda: [text for text in client.hvals("unacked") if name in b64_body(text)])
    # On a busy machine it may have been tried again meanwhile, and be held twice.
    assert {json.loads(text)[0]["headers"]["kwargsrepr"] for text in held} == {"…"}


def b64_body(text: str) -> str:
    """The body of a message that a worker holds until its time comes."""
    return base64.b64decode(json.loads(text)[0]["body"]).decode()


# --- failing ----------------------------------------------------------------------------------------


def test_a_listed_error_is_tried_again_as_often_as_declared(shop: Any, name: str) -> None:
    job = shop.flaky.enqueue(name)

    until(lambda: len(shop.noted(name)) == 3)
    assert shop.noted(name) == [f"attempt {number} of {job.id}-0" for number in (1, 2, 3)]


def test_an_unlisted_error_fails_at_once(shop: Any, name: str) -> None:
    shop.buggy.enqueue(name)
    done = shop.add.using(run_after="300ms").enqueue(1, 1)  # later than any second try would be

    assert done.result(timeout="60s") == 2
    assert shop.noted(name) == ["ran"]


def test_a_failure_is_told_by_its_result(shop: Any, name: str) -> None:
    job = shop.add.enqueue("one", 2)

    with pytest.raises(JobFailed, match="TypeError"):
        job.result(timeout="60s")


def test_a_deferral_counts_no_attempt(shop: Any, name: str) -> None:
    shop.put_off.enqueue(name)

    until(lambda: len(shop.noted(name)) == 3)
    assert shop.noted(name) == ["attempt 1"] * 3


# --- dying ------------------------------------------------------------------------------------------


def test_a_task_whose_process_is_killed_runs_again(shop: Any, name: str) -> None:
    shop.deadly_once.enqueue(name)

    until(lambda: len(shop.noted(name)) == 2)
    assert shop.noted(name) == ["start 1", "start 2"]


def test_a_task_that_kills_its_process_every_time_is_given_up(
    shop: Any, name: str, redis: RedisServer
) -> None:
    shop.deadly.enqueue(name)

    log = redis.folder / "worker.log"
    until(lambda: len(shop.noted(name)) == 3, 60)
    until(lambda: "CrashedTooOften" in log.read_text(), 60)
    assert shop.noted(name) == ["start"] * 3


def test_a_soft_limit_is_the_exception_that_the_body_knows(shop: Any, name: str) -> None:
    shop.slow.enqueue(name)

    assert until(lambda: shop.noted(name)) == ["tidied up"]


def test_what_a_hard_limit_kills_is_not_lost(shop: Any, name: str) -> None:
    shop.endless.enqueue(name)

    until(lambda: len(shop.noted(name)) >= 2)


# --- guards -----------------------------------------------------------------------------------------


def test_within_the_window_a_key_is_asked_for_once(shop: Any, name: str) -> None:
    guarded = shop.save.using(key=name, unique_for="1m")
    first, second = guarded.enqueue(name, 1), guarded.enqueue(name, 2)
    until(lambda: shop.noted(name))
    third = guarded.enqueue(name, 3)

    assert [job.decision for job in (first, second, third)] == ["created", "kept", "kept"]
    assert second.id == third.id == first.id
    assert shop.noted(name) == ["version 1"]


def test_a_trailing_guard_loses_no_update(shop: Any, name: str) -> None:
    guarded = shop.save.using(key=name, unique_for="1s", trailing=True)
    for version in (1, 2, 3):
        guarded.enqueue(name, version)

    until(lambda: shop.noted(name)[-1:] == ["version 3"])
    assert shop.noted(name)[0] == "version 1"


def test_guards_of_other_keys_and_other_tasks_are_their_own(shop: Any, name: str) -> None:
    decisions = [
        shop.save.using(key=f"{name}:{number}", unique_for="1m").enqueue(name, number).decision
        for number in (1, 2)
    ]
    decisions.append(shop.buggy.using(key=f"{name}:1", unique_for="1m").enqueue(name).decision)

    assert decisions == ["created", "created", "created"]


def test_a_guard_is_taken_back_when_the_broker_does_not_take_the_message(
    shop: Any, name: str, redis: RedisServer
) -> None:
    lost = OnCelery(away(), guards=redis.url)
    task = lost.task(name="lost")(lambda: None)

    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(StoreUnavailable, match="broker did not take lost"):
            task.using(key="lease:1", unique_for="1m").enqueue()

        assert time.monotonic() - began < 30
    with redis.client() as client:
        assert not client.keys("*window:lost*")


def test_a_guard_that_cannot_be_asked_is_told_at_once() -> None:
    app = OnCelery(away(), guards="redis://127.0.0.1:1")
    task = app.task(name="lost")(lambda: None)

    with pytest.raises(StoreUnavailable, match=r"guards at redis://127\.0\.0\.1:1"):
        task.using(key="lease:1", unique_for="1m").enqueue()


def away() -> Any:
    from celery import Celery

    celery: Any = Celery("away", broker="redis://127.0.0.1:1", set_as_current=False)
    celery.conf.broker_transport_options = {"socket_connect_timeout": 1, "max_retries": 0}
    return celery


def test_every_key_of_the_guards_has_an_end(shop: Any, name: str, redis: RedisServer) -> None:
    guarded = shop.save.using(key=name, unique_for="1m", trailing=True)
    for version in (1, 2):
        guarded.enqueue(name, version)
    shop.deadly_once.enqueue(name)
    until(lambda: "start 2" in shop.noted(name))

    with redis.client() as client:
        ends = {key: client.pttl(key) for key in client.keys("{duly}:celery:*")}
    assert len(ends) >= 3
    assert [key for key, left in ends.items() if left < 0 and left != -2] == []


def test_retries_also_work_where_celery_runs_tasks_at_once() -> None:
    celery = away()
    celery.conf.task_always_eager = True
    app = OnCelery(celery, guards="redis://127.0.0.1:1")
    attempts: list[int] = []

    @app.task(name="eager", retry=Retry(on=OSError, attempts=3, first="1ms"))
    def work(run: Run) -> None:
        attempts.append(run.attempt)
        raise OSError("away")

    work.enqueue()

    assert attempts == [1, 2, 3]


# --- receipts ---------------------------------------------------------------------------------------


def test_a_guarded_function_that_is_delivered_twice_has_one_effect(shop: Any, name: str) -> None:
    receipt = shop.ledger.issue(shop.charge, args=(name,)).id
    shop.charge.enqueue(name, execution_id=receipt)

    until(lambda: shop.ledger.get(receipt).state == "completed")
    assert shop.add.enqueue(1, 1).result(timeout="60s") == 2
    assert shop.charges().count(name) == 1


def test_a_request_in_a_transaction_leaves_as_a_receipt_with_its_commit(shop: Any, name: str) -> None:
    with closing(sqlite3.connect(shop.FOLDER / "shop.db")) as connection:
        rolled_back = shop.charge.using(connection=connection).enqueue(name)
        connection.rollback()
        committed = shop.charge.using(connection=connection).enqueue(name)
        connection.commit()
    shop.ledger.deliver(committed.id)

    until(lambda: shop.charges().count(name))
    assert (rolled_back.decision, committed.decision) == ("pending", "pending")
    assert shop.ledger.get(rolled_back.id) is None
    assert shop.charges().count(name) == 1


# --- what Celery cannot promise ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"concurrency": 2}, "cannot keep concurrency"),
        ({"rate": "10/m"}, "cannot keep rate"),
        ({"overlap": "skip"}, "cannot keep overlap='skip'"),
        ({"priority": 5}, "cannot keep priority"),
        ({"delivery": "exactly_once"}, "by a receipt instead"),
        ({"delivery": "at_most_once"}, "may run twice"),
    ],
)
def test_a_promise_that_celery_cannot_keep_is_refused_where_it_is_made(
    options: dict[str, Any], complaint: str
) -> None:
    app = OnCelery(away())

    with pytest.raises(DefinitionError, match=complaint):
        app.task(**options)(lambda: None)


def test_requests_that_celery_cannot_keep_are_refused() -> None:
    app = OnCelery(away(), guards="redis://127.0.0.1:1")
    task = app.task(name="work")(lambda: None)

    with pytest.raises(BadRequest, match="only the name of a guard"):
        task.using(key="lease:1").enqueue()
    with pytest.raises(BadRequest, match="cannot replace"):
        task.using(key="lease:1", unique_for="1m", replace=True).enqueue()


def test_perpetual_and_scheduled_tasks_are_refused() -> None:
    app = OnCelery(away())

    with pytest.raises(DefinitionError, match="worker of Duly's"):
        app.perpetual(every="1m")(lambda: None)
    with pytest.raises(DefinitionError, match="beat"):
        app.schedule(every="1m")


def test_the_declaration_in_celerys_own_words() -> None:
    celery = away()
    app = OnCelery(celery)

    @app.task(name="search", soft_limit="90s", hard_limit="120s", retry=Retry(on=OSError))
    def search() -> None: ...

    carrier = celery.tasks["search"]
    assert (carrier.acks_late, carrier.reject_on_worker_lost, carrier.ignore_result) == (True, True, True)
    assert (carrier.soft_time_limit, carrier.time_limit) == (90, 120)
    assert (carrier.acks_on_failure, carrier.acks_on_timeout) == (True, False)


def test_beat_can_name_a_task_with_a_message(shop: Any, name: str) -> None:
    shop.celery.send_task(shop.save.name, kwargs=shop.app.message(shop.save, name, 9))

    assert until(lambda: shop.noted(name)) == ["version 9"]
