"""A worker's first call to its store: a server may come up later than we do.

What waiting mends is waited for; what only a person can mend ends the worker at once, with the remedy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from typing import Protocol, TypeVar, runtime_checkable

from duly.app import App
from duly.errors import StoreRefused, StoreUnavailable
from duly.ids import spread
from duly.job import Delivery
from duly.worker.outage import Outage, backoff

T = TypeVar("T")


@runtime_checkable
class Particular(Protocol):
    """A store that can keep some promises only under certain settings."""

    def check_delivery(self, delivery: Delivery) -> None: ...


def await_store(
    app: App, first_call: Callable[[], T], outage: Outage, is_stopping: threading.Event
) -> T | None:
    """What the first call that succeeds answers, or nothing when told to stop meanwhile."""
    for failures in count():
        if is_stopping.is_set():
            break
        try:
            _check_promises(app)
            answer = first_call()
        except StoreUnavailable as error:
            if isinstance(error, StoreRefused):  # it will be the same tomorrow
                raise
            outage.noted(error)
            is_stopping.wait(backoff(failures, spread()))
        else:
            outage.over()
            return answer
    return None


def _check_promises(app: App) -> None:
    store = app.store
    if isinstance(store, Particular):
        for delivery in {task.options.delivery for task in app.tasks.values()}:
            store.check_delivery(delivery)
