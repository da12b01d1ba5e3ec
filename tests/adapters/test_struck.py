"""A body struck while the store works for it: the work is done whole, and only then the body hears of it."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.contract.stores import STORES

from duly.errors import SoftLimitExceeded
from duly.executors.threads import Threads
from duly.stores.contract import Store
from duly.stores.drive import Operation, Steps
from duly.testing import VirtualClock

PATIENCE = 60.0


class Slow:
    """Writes a record, after a pause in which the test strikes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_under_way = threading.Event()
        self.may_go_on = threading.Event()
        self.is_over = False

    def perform(self) -> None:
        written = self.store.record("story", "word", "said")

        def steps() -> Steps[Any]:
            self.is_under_way.set()
            assert self.may_go_on.wait(PATIENCE)
            return (yield from written.steps())

        self.store.run(Operation(written.name, steps, writes=True))
        self.is_over = True


@pytest.mark.parametrize("kind", [name for name in STORES if name != "memory"])
def test_an_interrupt_waits_for_the_end_of_what_the_store_does(kind: str, tmp_path: Path) -> None:
    store = STORES[kind](tmp_path, VirtualClock())
    store.open()
    slow, ended, failures = Slow(store), threading.Event(), list[BaseException | None]()

    def done(_value: Any, failure: BaseException | None) -> None:
        failures.append(failure)
        ended.set()

    threads = Threads(1)
    token = threads.submit(slow.perform, done)
    assert slow.is_under_way.wait(PATIENCE)
    threads.interrupt(token, SoftLimitExceeded)
    slow.may_go_on.set()
    assert ended.wait(PATIENCE)
    threads.close(grace=timedelta(minutes=1))

    assert [type(failure) for failure in failures] == [SoftLimitExceeded]
    assert not slow.is_over  # it was struck on the way back, not in between
    assert store.run(store.records("story")) == {"word": "said"}
    store.close()
