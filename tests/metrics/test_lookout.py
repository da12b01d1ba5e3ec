"""A store is looked at seldom, and one that is away keeps nobody waiting."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from duly import Duly
from duly.errors import StoreUnavailable
from duly.metrics import lookout as module
from duly.metrics.lookout import EVERY, SHARE, STALE, Lookout


class Watch:
    """Time that moves when told to, by itself a step at every look at it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def app() -> Iterator[Duly]:
    app = Duly("memory://")
    yield app
    app.close()


def test_a_second_reader_gets_the_same_look_until_it_is_old(app: Duly, watch: Watch) -> None:
    lookout = Lookout(app, watch)

    first = lookout.look()
    watch.now += EVERY - 1
    second = lookout.look()
    watch.now += 2
    third = lookout.look()

    assert first is not None
    assert second is first
    assert third is not first


def test_a_look_that_takes_long_is_taken_rarely(
    app: Duly, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookout = Lookout(app, watch)
    census = app.store.census

    def slow() -> object:
        watch.now += 3.0
        return census()

    monkeypatch.setattr(app.store, "census", slow)
    first = lookout.look()
    watch.now += 3.0 * SHARE - 1
    second = lookout.look()

    assert second is None or second is first  # too old to be told, but not looked at again
    assert watch.now == 1000.0 + 3.0 + 3.0 * SHARE - 1


def test_a_store_that_fails_is_told_as_away_and_the_last_look_stays_for_a_while(
    app: Duly, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookout = Lookout(app, watch)
    first, was_up = lookout.look(), lookout.is_up

    def away() -> object:
        raise StoreUnavailable("gone fishing")

    monkeypatch.setattr(app.store, "census", away)
    watch.now += EVERY + 1
    second, is_up = lookout.look(), lookout.is_up
    watch.now += STALE

    assert second is first
    assert (was_up, is_up) == (True, False)
    assert lookout.look() is None


def test_a_store_that_hangs_keeps_no_reader(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    may_answer = threading.Event()
    census = app.store.census

    def hanging() -> object:
        may_answer.wait(60)
        return census()

    monkeypatch.setattr(app.store, "census", hanging)
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    lookout = Lookout(app)

    seen, was_up = lookout.look(), lookout.is_up
    may_answer.set()
    monkeypatch.setattr(module, "PATIENCE", 10)

    assert seen is None
    assert not was_up
    assert lookout.look() is not None
    assert lookout.is_up
