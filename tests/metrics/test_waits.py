"""How long a job waited is measured from its due time to its start, for first tries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duly import Duly, Retry, Run
from duly.events import Event
from duly.job import Claim
from duly.worker.hand import Holding

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def holding(**given: int) -> Holding:
    """Lent two seconds after it was due, started half a second later, by clocks that disagree."""
    counts = {"attempt": 0, "crashes": 0, "deferrals": 0, **given}
    claim = Claim(
        id="1", epoch=1, nonce="", task="mail", queue="io", key=None, generation=1, arguments="", cycle=0,
        is_suspect=False, due=NOON, tick=None, first_failure=None, context="{}", **counts,
    )  # fmt: skip
    task = Duly("memory://").task(lambda: None)
    found = Holding(
        claim, task, started_at=NOON - timedelta(hours=1), lent_at=NOON + timedelta(seconds=2), taken=10.0
    )
    found.started = 10.5
    return found


def test_a_first_try_waited_by_the_stores_clock_and_then_by_ours() -> None:
    assert holding().wait == 2.5


@pytest.mark.parametrize("count", ["attempt", "crashes", "deferrals"])
def test_of_later_tries_nobody_can_say(count: str) -> None:
    assert holding(**{count: 1}).wait is None


def test_events_of_a_real_worker_tell_queue_and_wait() -> None:
    app, heard = Duly("memory://"), list[Event]()
    app.events.subscribe(heard.append)

    @app.task(queue_name="io", retry=Retry(on=OSError, attempts=2, first="1ms", jitter=0))
    def call(run: Run) -> None:
        if run.attempt == 1:
            raise OSError

    call.enqueue()
    while len(heard) < 2:
        app.run(burst=True)

    first, second = heard
    assert [(event.kind, event.queue) for event in heard] == [("retry", "io"), ("done", "io")]
    assert first.wait is not None
    assert 0 <= first.wait < 30
    assert second.wait is None
