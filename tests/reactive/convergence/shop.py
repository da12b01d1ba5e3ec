"""The application under test: two tasks that follow one table and write down every document they see."""

from __future__ import annotations

import time
import zlib
from typing import Any, Final

from tests.chaos.journal import Journal, own_journal

from duly import Change, Duly, Retry, Run
from duly.errors import ConditionFailed

ORDERS: Final = (
    "create table orders (id integer primary key, status text not null, total integer not null, note text)",
    "create table pen (id integer primary key, revision integer not null)",
    "create table effect (id integer not null, total integer not null)",
    "create index effect_id on effect (id)",
)
"""`pen` has a row for every key, also while there is no order: its revision is the order of commits."""
AGAIN: Final = Retry(on=ConnectionError, attempts=None, backoff="fixed", first="100ms")

app = Duly()
_journal: Journal | None = None


def journal() -> Journal:
    """Of this process, opened by its first word."""
    global _journal  # noqa: PLW0603  one per process
    if _journal is None:
        _journal = own_journal()
    return _journal


def told(kind: str, run: Run, change: Change, **more: Any) -> None:
    journal().write(kind, task=run.task, id=run.id, epoch=run.epoch, key=change.key, **more)


def perform(run: Run, change: Change) -> dict[str, Any]:
    """Read the document, take a moment, and fail now and then."""
    told("start", run, change, values=dict(change.values))
    try:
        order = dict(change.document())
    except ConditionFailed:
        told("skipped", run, change)
        raise
    told("saw", run, change, status=order["status"], total=order["total"])
    time.sleep(0.01)
    if run.attempt == 1 and zlib.crc32(f"{run.task} {order['total']}".encode()) % 17 == 0:
        told("raised", run, change)
        raise ConnectionError("the provider is away")
    return order


@app.react(table="orders", where="status = 'paid'", watch=["status", "total"], retry=AGAIN, name="receipt")
def send_receipt(change: Change, run: Run) -> None:
    perform(run, change)
    told("end", run, change)


@app.react(
    table="orders",
    where="status = 'paid'",
    watch=["status", "total"],
    retry=AGAIN,
    delivery="exactly_once",
    name="book",
)
def book(change: Change, run: Run) -> None:
    order = perform(run, change)
    run.connection.execute(f"insert into effect values ({order['id']}, {order['total']})")
    told("end", run, change)
