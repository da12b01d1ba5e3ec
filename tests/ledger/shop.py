"""A shop whose queue is not its database: on Redis by Duly, or by RQ. Its processes import this module."""

from __future__ import annotations

import os
from typing import Any

from tests.ledger.homes import Home

from duly import Duly, HandOver, Ledger, Receipt, exactly_once

HOME = Home(os.environ["SHOP_DATABASE"], os.environ["SHOP_NAMESPACE"])

app = Duly(os.environ["SHOP_QUEUE"], lease="1500ms", poll="50ms", namespace=HOME.namespace)
ledger = Ledger(
    HOME.url, namespace=HOME.namespace, lease="1500ms", lost_after="200ms", redeliver_after="200ms"
)


def insert(receipt: Receipt, what: str) -> None:
    receipt.connection.execute(HOME.insert, (what, str(os.getpid())))


@app.task(name="charge")
@exactly_once(ledger=ledger, name="charge")
def charge(what: str, receipt: Receipt) -> None:
    """Guarded by the run's own id: nobody issues a receipt."""
    insert(receipt, what)


@exactly_once(ledger=ledger, name="pay")
def pay(what: str, receipt: Receipt) -> str:
    """Delivered by RQ."""
    insert(receipt, what)
    return f"paid {what}"


@ledger.hand_over
def enqueue(order: HandOver) -> None:
    """The way to a worker of RQ."""
    from rq import Queue

    queue: Any = Queue(connection=queue_connection())
    queue.enqueue(pay, *order.args, **order.kwargs, execution_id=order.id)


def queue_connection() -> Any:
    from redis import Redis

    return Redis(unix_socket_path=os.environ["SHOP_SOCKET"])
