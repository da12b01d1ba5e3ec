"""An application in a world of its own: a store in memory, a clock that waits, a worker without threads."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from duly.app import App
from duly.testing.clock import START
from duly.testing.waiting import Patience, VirtualJobs
from duly.testing.working import WorkingClock


@contextmanager
def virtual(
    app: App, *, start: datetime = START, transactions: Any = None
) -> Generator[WorkingClock, None, None]:
    """Inside the block the application has an empty store in memory and its time stands still.

    with virtual(app) as clock:
        sign_up("ada@example.org")
        clock.run_due()

    Afterwards everything is as it was: the application's own store was never touched. Exactly-once bodies
    work on what `transactions` makes, else on what the application was given: see Duly(transactions=…).
    """
    clock = WorkingClock(app, start, transactions)
    patience = Patience(clock)
    waiting = {"await_end": patience.await_end, "aawait_end": patience.aawait_end}
    with app.standing_in(clock.store, clock), _overlaid(vars(app), waiting):
        app.jobs = VirtualJobs(clock, patience)
        clock.crew.seed()
        try:
            yield clock
        finally:
            clock.close()


@contextmanager
def _overlaid(attributes: dict[str, Any], changes: Mapping[str, Any]) -> Generator[None, None, None]:
    before = {name: attributes[name] for name in changes if name in attributes}
    attributes.update(changes)
    try:
        yield
    finally:
        for name in changes:
            del attributes[name]
        attributes.update(before)
