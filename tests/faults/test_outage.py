"""What a worker does and says about an outage, to the second: how often it tries, how often it tells."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.stories.arrange import until, working

from duly import Duly, StoreUnavailable
from duly.stores.contract import Renewal
from duly.stores.drive import Operation
from duly.worker.outage import LONGEST, QUIET, SAY_EVERY, Outage, backoff

AWAY = StoreUnavailable("the network is down")


class Clock:
    """Moved by the test."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outage(clock: Clock) -> Outage:
    return Outage(monotonic=clock)


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_pause_is_never_longer_than_the_cap_and_never_nothing(failures: int, spread: float) -> None:
    assert 0.02 < backoff(failures, spread) <= LONGEST
    assert backoff(failures, spread) <= backoff(failures + 1, spread)


def test_pauses_of_a_crowd_are_spread_over_half_of_their_length() -> None:
    assert backoff(50, 0.0) == LONGEST
    assert LONGEST / 2 <= backoff(50, 0.999) < LONGEST / 1.9


def test_an_outage_is_told_at_once_then_now_and_then_and_at_its_end(
    outage: Outage, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):  # ten seconds of many tries
        outage.noted(AWAY)
        clock.now += SAY_EVERY / 50
    outage.over()
    outage.over()

    assert [record.getMessage() for record in caplog.records] == [
        "the store is away, trying again: the network is down",
        "the store is away (5 s so far), trying again: the network is down",
        "the store is back after 10.0 s",
    ]


def test_a_server_that_comes_and_goes_all_the_time_fills_no_log(
    outage: Outage, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    seconds = 60
    for _ in range(10 * seconds):
        outage.noted(AWAY)
        clock.now += 0.05
        outage.over()
        clock.now += 0.05

    assert len(caplog.records) <= 2 * seconds / QUIET + 2


def test_an_outage_that_follows_another_at_once_is_told_when_it_lasts(
    outage: Outage, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    outage.noted(AWAY)
    outage.over()
    outage.noted(AWAY)
    told_so_far = len(caplog.records)
    clock.now += QUIET
    outage.noted(AWAY)

    assert told_so_far == 2
    assert len(caplog.records) == 3


# --- in a worker ----------------------------------------------------------------------------------


@pytest.fixture
def app(tmp_path: Path) -> Generator[Duly]:
    app = Duly(f"sqlite:///{tmp_path}/d.db", lease="1m", poll="50ms")
    yield app
    app.close()


def test_the_lease_is_renewed_as_soon_as_the_store_is_back_however_long_it_is(
    app: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()

    def fail(*_: Any) -> Any:
        failed.set()
        raise AWAY

    with working(app):
        [first] = until(lambda: app.store.run(app.store.workers()))
        with monkeypatch.context() as patched:
            patched.setattr(type(app.store), "run", fail)
            assert failed.wait(30)

        def renewed() -> bool:
            [now] = app.store.run(app.store.workers())
            return now.seen_at > first.seen_at

        until(renewed)  # a beat of this lease would come after 15 s


def test_a_worker_that_cannot_renew_its_lease_claims_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Duly(f"sqlite:///{tmp_path}/d.db", lease="1s", poll="50ms")
    tries = threading.Semaphore(0)

    @app.task(name="any")
    def task() -> None: ...

    def renew(*_: Any) -> Operation[Renewal]:
        tries.release()
        raise AWAY

    with working(app):
        until(lambda: app.store.run(app.store.workers()))
        with monkeypatch.context() as patched:
            patched.setattr(app.store, "renew", renew)
            for _ in range(6):  # the lease is over by then
                assert tries.acquire(timeout=30)
            job = task.enqueue()
            for _ in range(2):
                assert tries.acquire(timeout=30)
            untouched = app.jobs.get(job)
        until(lambda: app.jobs.get(job).state == "done")

    app.close()
    assert (untouched.epoch, untouched.history) == (0, ())


def test_hundreds_of_runs_that_lose_their_lease_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    app = Duly(f"sqlite:///{tmp_path}/d.db", lease="1s", poll="50ms", concurrency=100)
    ready = threading.Barrier(101)
    over = threading.Event()

    @app.task(name="stuck")
    def stuck() -> None:
        if not over.is_set():
            ready.wait(60)
            over.wait(60)

    def fail(*_: Any) -> Any:
        raise AWAY

    with working(app):
        nothing: dict[str, Any] = {}
        stuck.enqueue_many([((), nothing)] * 100)
        ready.wait(60)
        with monkeypatch.context() as patched:
            patched.setattr(type(app.store), "run", fail)
            until(lambda: "was not renewed in time" in caplog.text)
            over.set()
        until(lambda: app.jobs.count(state="done") == 100)

    app.close()
    # On a busy machine some may have been stopped, untold, between their claim and their start.
    assert re.search(r"the lease of \d\d\d? jobs", caplog.text)
    assert len(caplog.records) <= 5
