"""Tasks of Duly on a real Celery, for the tests and for the worker they start."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

from celery import Celery

from duly import Ledger, Receipt, Retry, Run, SoftLimitExceeded, bind, exactly_once
from duly.context import bound
from duly.integrations.celery import OnCelery

FOLDER = Path(os.environ["SHOP_FOLDER"])
SOCKET = os.environ["SHOP_SOCKET"]

celery: Any = Celery("shop", broker=f"redis+socket://{SOCKET}", backend=f"redis+socket://{SOCKET}")
celery.conf.worker_prefetch_multiplier = 1
celery.conf.worker_lost_wait = 1  # seconds in which the last word of a dead child may still come
celery.conf.broker_connection_retry_on_startup = True
celery.conf.broker_transport_options = {"socket_connect_timeout": 2, "socket_timeout": 20}

ledger = Ledger(f"sqlite:///{FOLDER}/shop.db", lease="30s", interval="1s")
app = OnCelery(celery, ledger=ledger)


class CloudError(Exception):
    """The cloud is away."""


def note(name: str, text: str) -> None:
    """One line in a file of the test's."""
    with (FOLDER / name).open("a") as file:
        file.write(f"{text}\n")


def noted(name: str) -> list[str]:
    file = FOLDER / name
    return file.read_text().splitlines() if file.exists() else []


@app.task(keep_result="1h")
def add(first: int, second: int) -> int:
    return first + second


@app.task
async def greet(run: Run, name: str, whom: str) -> None:
    note(name, f"hello {whom}, attempt {run.attempt}, for {bound().get('user_id')}")


@app.task(retry=Retry(on=CloudError, attempts=3, first="10ms", jitter=0))
def flaky(run: Run, name: str) -> None:
    note(name, f"attempt {run.attempt} of {run.idempotency_key}")
    raise CloudError("away")


@app.task(retry=Retry(on=CloudError, attempts=3, first="10ms"))
def buggy(name: str) -> None:
    note(name, "ran")
    raise ValueError("a bug")


@app.task
def save(name: str, version: int) -> None:
    note(name, f"version {version}")


@app.task
def deadly_once(run: Run, name: str) -> None:
    note(name, f"start {run.epoch}")
    if run.epoch == 1:
        os.kill(os.getpid(), signal.SIGKILL)


@app.task
def deadly(name: str) -> None:
    note(name, "start")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(soft_limit="300ms", hard_limit="100s")
def slow(name: str) -> None:
    try:
        time.sleep(90)
    except SoftLimitExceeded:
        note(name, "tidied up")
        raise


@app.task(hard_limit="500ms", retry=Retry(on=CloudError))
def endless(name: str) -> None:
    note(name, "start")
    time.sleep(60)


@app.task(retry=Retry(on=CloudError, attempts=2, first="10ms"))
def put_off(run: Run, name: str) -> None:
    note(name, f"attempt {run.attempt}")
    if len(noted(name)) < 3:
        run.defer("10ms")


@app.task(redact=["password"], retry=Retry(on=CloudError, attempts=2, first="1m", jitter=0))
def sign_in(name: str, password: str) -> None:
    note(name, "tried")
    raise CloudError("away")


@app.task
def outer(name: str) -> None:
    with bind(user_id=7):
        greet.enqueue(name, "inner")


@app.task
@exactly_once(ledger=ledger)
def charge(what: str, receipt: Receipt) -> None:
    receipt.connection.execute("insert into charges values (?)", (what,))


def charges() -> list[str]:
    connection = sqlite3.connect(FOLDER / "shop.db")
    rows = connection.execute("select what from charges").fetchall()
    connection.close()
    return [what for (what,) in rows]
