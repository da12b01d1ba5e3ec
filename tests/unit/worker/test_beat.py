"""The heartbeat: what it lets the worker believe about others."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta

from tests.unit.worker.arrange import card_of

from duly import Duly
from duly.worker.beat import Heartbeat
from duly.worker.hand import Hand

LEASE = timedelta(hours=1)


def test_a_worker_takes_over_on_a_machine_that_has_just_started() -> None:
    """Its monotonic clock has counted fewer seconds than a third of the lease; nobody was away for that."""
    with closing(Duly("memory://")) as app:
        beat = Heartbeat(store=app.store, card=card_of(app, "w1"), lease=LEASE, hand=Hand(), fail=_fail)

        assert beat.may_take_over(now=5.0)
        beat.beat()
        assert beat.may_take_over(now=5.0)


def _fail(error: BaseException) -> None:
    raise error
