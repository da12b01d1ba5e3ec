"""One thread, many deadlines."""

from __future__ import annotations

import queue
import threading
from datetime import timedelta

import pytest

from duly.executors.deadlines import Deadlines

SOON = timedelta(seconds=0.05)
LATER = timedelta(seconds=1)
NEVER = timedelta(hours=1)


def test_deadlines_expire_in_their_order_whatever_the_order_of_asking() -> None:
    expired: queue.SimpleQueue[str] = queue.SimpleQueue()
    deadlines = Deadlines(expired.put)

    deadlines.begin("never", NEVER)
    deadlines.begin("later", LATER)
    deadlines.begin("soon", SOON)

    assert [expired.get(timeout=30), expired.get(timeout=30)] == ["soon", "later"]
    assert expired.empty()
    deadlines.close()


def test_what_ended_in_time_does_not_expire() -> None:
    expired: queue.SimpleQueue[str] = queue.SimpleQueue()
    deadlines = Deadlines(expired.put)

    deadlines.begin("in time", LATER / 2)
    deadlines.end("in time")
    deadlines.begin("too late", LATER)

    assert expired.get(timeout=30) == "too late"
    deadlines.close()


def test_a_watching_thread_that_could_not_be_started_is_started_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expired: queue.SimpleQueue[str] = queue.SimpleQueue()
    deadlines = Deadlines(expired.put)

    def run_out(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", run_out)
        with pytest.raises(RuntimeError, match="can't start"):
            deadlines.begin("refused", NEVER)
    deadlines.begin("soon", SOON)

    assert expired.get(timeout=30) == "soon"
    deadlines.close()


def test_the_death_of_the_watching_thread_is_the_next_callers_news(caplog: pytest.LogCaptureFixture) -> None:
    heard: queue.SimpleQueue[str] = queue.SimpleQueue()

    def fail(key: str) -> None:
        heard.put(key)
        raise LookupError("nobody to interrupt")

    deadlines = Deadlines(fail)
    deadlines.begin("first", timedelta(0))
    heard.get(timeout=30)
    deadlines.close()

    with pytest.raises(RuntimeError, match="nobody to interrupt"):
        _begin_until_refused(deadlines)
    assert "watches deadlines died" in caplog.text


def _begin_until_refused(deadlines: Deadlines[str]) -> None:
    for _ in range(1_000_000):
        deadlines.begin("next", NEVER)
