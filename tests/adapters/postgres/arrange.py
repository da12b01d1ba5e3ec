"""Small requests and a worker in miniature, on the server's own clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, TypeVar

from duly.ids import new_id
from duly.job import Claim, Job, Request
from duly.lifecycle import Done, Settled
from duly.stores.contract import Ask, Claimed, Lane, Page, Placed, Selection, Settlement, Store
from duly.stores.drive import Operation, Row, Steps

T = TypeVar("T")

TASK: Final = "send"
KEY: Final = "lease:42"
LEASE: Final = timedelta(seconds=30)


def request(key: str | None = None, *, task: str = TASK, arguments: str = "[[],{}]") -> Request:
    return Request(id=new_id(), task=task, arguments=arguments, key=key)


def due_long_ago(wanted: Request) -> Request:
    return replace(wanted, delay=-timedelta(hours=1))


def put(store: Store, *requests: Request) -> list[Placed]:
    return store.run(store.put(requests))


def asking(worker: str = "w1", *, limit: int = 100, lease: timedelta = LEASE) -> Ask:
    return Ask(worker, {TASK: Lane(TASK)}, lease, limit=limit, free=limit)


def claimed(store: Store, worker: str = "w1", *, limit: int = 100, lease: timedelta = LEASE) -> Claimed:
    return store.run(store.claim(asking(worker, limit=limit, lease=lease)))


def claim(store: Store, worker: str = "w1", *, limit: int = 100) -> Sequence[Claim]:
    return claimed(store, worker, limit=limit).claims


def settle(store: Store, *lent: Claim, worker: str = "w1") -> list[Settled]:
    return store.run(store.settle(worker, ended(*lent)))


def ended(*lent: Claim) -> list[Settlement]:
    return [Settlement(one.fence, Done()) for one in lent]


def find(store: Store, *ids: str) -> list[Job]:
    return store.run(store.find(Selection(ids=ids), Page(limit=1000)))


def held_up(operation: Operation[T], words: str, act: Callable[[], object]) -> Operation[T]:
    """The same, but something happens after the answer to the first statement with these words."""
    left = [act]

    def steps() -> Steps[T]:
        inner = operation.steps()
        rows: Sequence[Row] | None = None
        while True:
            try:
                statement = next(inner) if rows is None else inner.send(rows)
            except StopIteration as stop:
                value: T = stop.value
                return value
            rows = yield statement
            if words in statement.text and left:
                left.pop()()

    return Operation(operation.name, steps)


def eventually(holds: Callable[[], bool], *, seconds: float = 60.0) -> bool:
    """Whether something comes true in time; looked at again and again."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
