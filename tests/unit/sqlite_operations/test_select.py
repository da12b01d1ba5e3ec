"""Pages of what waits: newest first, wherever it stands among jobs that ended, ready or behind another."""

from __future__ import annotations

import pytest
from tests.unit.sqlite_operations.arrange import ask, done, lend, request, requests
from tests.unit.sqlite_operations.driver import PlainStore

from duly.job import Overlap, State
from duly.stores.contract import Lane, Page, Selection
from duly.stores.sqlite.operations import select

WAITING = Selection(states=(State.WAITING,))
ROUNDS = 4


@pytest.fixture(autouse=True, params=[0, 3, 1000])
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many of the newest jobs are looked at first."""
    monkeypatch.setattr(select, "WINDOW", request.param)


@pytest.fixture
def waiting(store: PlainStore) -> list[str]:
    """Jobs of three lanes, some behind a run of their serial, between others that ended; newest first."""
    store.run(store.put([request(key="first", serial="chain")]))
    lend(store)
    waiting = list[str]()
    for number in range(ROUNDS):
        tick = request(key=f"tick {number}", serial="chain", overlap=Overlap.QUEUE_ALL)
        placed = store.run(store.put([*requests(2, task="one"), tick, request(task="two")]))
        waiting += [each.id for each in placed]
        store.run(store.put(requests(5, task="brief")))
        brief = store.run(store.claim(ask("w2", Lane("brief")))).claims
        store.run(store.settle("w2", done(brief)))
    return waiting[::-1]


def page(store: PlainStore, selection: Selection, limit: int) -> list[str]:
    return [job.id for job in store.run(store.find(selection, Page(limit)))]


def test_all_that_waits_is_found_newest_first(store: PlainStore, waiting: list[str]) -> None:
    assert page(store, WAITING, limit=100) == waiting
    assert store.run(store.count(WAITING)) == len(waiting)


@pytest.mark.parametrize("limit", [1, 2, 3, 5])
def test_pages_follow_each_other_without_a_gap(store: PlainStore, waiting: list[str], limit: int) -> None:
    seen = list[str]()
    before = select.NEVER
    while found := store.run(store.find(WAITING, Page(limit=limit, before=before))):
        seen += [job.id for job in found]
        before = found[-1].generation

    assert seen == waiting


def test_each_lane_has_its_own(store: PlainStore, waiting: list[str]) -> None:
    lanes = {job.task for job in store.run(store.find(WAITING, Page(limit=100)))}

    found = {lane: page(store, Selection(tasks=(lane,), states=(State.WAITING,)), limit=2) for lane in lanes}

    assert len(lanes) == 3
    assert found == {lane: [each for each in waiting if _task(store, each) == lane][:2] for lane in lanes}


def test_the_census_counts_those_behind_others_too(store: PlainStore, waiting: list[str]) -> None:
    counted = store.run(store.census()).jobs

    assert sum(size for (_, _, state), size in counted.items() if state is State.WAITING) == len(waiting)


def _task(store: PlainStore, job_id: str) -> str:
    (job,) = store.run(store.find(Selection(ids=(job_id,)), Page()))
    return job.task
