"""The engine's own jobs are schedules that tick: an order meant for other jobs must not stop them."""

from __future__ import annotations

import pytest
from tests.contract.arrange import ask, beat, claim, find, look, put, put_one, request, settle, state

from duly.job import ENGINE_QUEUES, State
from duly.lifecycle import Fail
from duly.stores.contract import Amendment, Cancel, Delete, Lane, Postpone, Revive, Selection, Store

ORDERS: list[Amendment] = [Cancel(), Delete(), Revive(), Postpone()]
SCHEDULE = request("nightly", id="schedule", task="duly.schedule:nightly", queue=ENGINE_QUEUES[0])
UNNAMED = {
    "state": Selection(states=(State.WAITING,)),
    "states": Selection(states=(State.WAITING, State.RUNNING)),
    "key": Selection(key="nightly"),
    "nothing": Selection(),
}
NAMED = {
    "id": Selection(ids=("schedule",)),
    "task": Selection(tasks=(SCHEDULE.task,)),
    "queue": Selection(queues=ENGINE_QUEUES),
    "queue and state": Selection(queues=ENGINE_QUEUES, states=(State.WAITING,)),
}


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: type(order).__name__)
@pytest.mark.parametrize("selection", UNNAMED.values(), ids=UNNAMED)
def test_an_order_leaves_the_engines_own_jobs_alone_unless_it_names_them(
    store: Store, selection: Selection, order: Amendment
) -> None:
    put(store, request("nightly", id="other"), SCHEDULE)
    before = look(store, "schedule")

    amended = store.run(store.amend(selection, order, limit=1))

    assert [one.id for one in amended] == ["other"]
    assert look(store, "schedule") == before


def test_an_order_leaves_a_running_job_of_the_engine_alone(store: Store) -> None:
    put_one(store, SCHEDULE)
    lent = claim(store, ask(lanes=[Lane(SCHEDULE.task)])).claims[0]

    assert store.run(store.amend(Selection(states=(State.RUNNING,)), Cancel())) == []
    assert beat(store, lent).orders == {}


def test_an_order_by_error_leaves_the_engines_own_jobs_alone(store: Store) -> None:
    put_one(store, SCHEDULE)
    settle(store, claim(store, ask(lanes=[Lane(SCHEDULE.task)])).claims[0], Fail("boom"))

    assert store.run(store.amend(Selection(error="boom"), Revive())) == []
    assert state(store, "schedule") is State.FAILED


@pytest.mark.parametrize("selection", NAMED.values(), ids=NAMED)
def test_an_order_that_names_the_engines_own_jobs_reaches_them(store: Store, selection: Selection) -> None:
    put_one(store, SCHEDULE)

    [amended] = store.run(store.amend(selection, Cancel()))

    assert (amended.id, amended.took_effect) == ("schedule", True)


def test_a_look_at_jobs_shows_those_of_the_engine_too(store: Store) -> None:
    put_one(store, SCHEDULE)

    assert [job.id for job in find(store, Selection(states=(State.WAITING,)))] == ["schedule"]
    assert store.run(store.count(Selection(states=(State.WAITING,)))) == 1
