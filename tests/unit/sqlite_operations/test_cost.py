"""What an operation costs must follow what it does, not what lies around.

Cost is counted in instructions of SQLite's machine, so these tests hold on a slow and busy computer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.sqlite_operations.arrange import SECOND, TASK, ask, done, lend, request, requests, states
from tests.unit.sqlite_operations.driver import PlainStore

from duly.job import Claim, Overlap, State
from duly.stores.contract import Lane, Page, Scope, Selection, Switch
from duly.stores.drive import Operation
from duly.stores.sqlite.operations import select

MANY = 3000


def instructions(store: PlainStore, operation: Operation[Any]) -> int:
    """How many instructions it takes, to the nearest ten."""
    ticks = 0

    def tick() -> int:
        nonlocal ticks
        ticks += 1
        return 0

    store.connection.set_progress_handler(tick, 10)
    store.run(operation)
    store.connection.set_progress_handler(None, 10)
    return ticks * 10


def unknown_lane(store: PlainStore) -> None:
    store.run(store.put(requests(MANY, task="unknown", priority=9)))


def held_lane(store: PlainStore) -> None:
    store.run(store.put(requests(MANY, task="held", priority=9)))
    store.run(store.hold(Switch(Scope.TASK, "held", None)))


def full_lane(store: PlainStore) -> None:
    store.run(store.put(requests(MANY, task="full", priority=9)))


def not_yet_due(store: PlainStore) -> None:
    store.run(store.put(requests(MANY, priority=9, delay=60 * SECOND)))


def expired_elsewhere(store: PlainStore) -> None:
    store.run(store.put(requests(MANY, task="unknown", expires_after=-SECOND)))


def finished(store: PlainStore) -> None:
    store.run(store.put(requests(MANY)))
    claims = lend(store, limit=MANY)
    store.run(store.settle("w1", done(claims)))


def parked(store: PlainStore) -> list[Claim]:
    store.run(store.put([request(key="k", serial="chain", priority=9)]))
    claims = lend(store, "w2")
    ticks = [request(key=f"k{n}", serial="chain", overlap=Overlap.QUEUE_ALL) for n in range(MANY)]
    store.run(store.put(ticks))
    return claims


def on_loan_elsewhere(store: PlainStore) -> None:
    store.run(store.put(requests(MANY)))
    lend(store, "w2", limit=MANY)


SURROUNDINGS = [
    unknown_lane,
    held_lane,
    full_lane,
    not_yet_due,
    expired_elsewhere,
    finished,
    parked,
    on_loan_elsewhere,
]


@pytest.mark.parametrize("surround", SURROUNDINGS)
def test_a_claim_walks_over_nothing_that_it_cannot_lend(
    store: PlainStore, surround: Callable[[PlainStore], object]
) -> None:
    lanes = (Lane(TASK), Lane("held"), Lane("full", concurrency=0))
    surround(store)
    store.run(store.put(requests(5)))

    cost = instructions(store, store.claim(ask("w1", *lanes, limit=5)))

    assert cost < 2000  # one instruction per job lying around would be thousands more


def test_a_claim_does_not_walk_over_what_it_leaves_in_its_own_lane(store: PlainStore) -> None:
    store.run(store.put(requests(MANY)))

    cost = instructions(store, store.claim(ask(limit=5)))

    assert cost < 2000


def test_a_settle_does_not_walk_over_what_waits_in_its_chain(store: PlainStore) -> None:
    [claim] = parked(store)

    cost = instructions(store, store.settle("w2", done([claim])))

    assert cost < 2000


def test_a_put_does_not_walk_over_what_waits_in_its_chain(store: PlainStore) -> None:
    parked(store)
    tick = request(key="another", serial="chain", overlap=Overlap.QUEUE_ALL)

    cost = instructions(store, store.put([tick]))

    assert cost < 2000


@pytest.mark.parametrize(
    "selection",
    [
        Selection(),
        Selection(states=(State.DONE,)),
        Selection(tasks=(TASK,)),
        Selection(tasks=(TASK,), states=(State.FAILED,)),
        Selection(queues=("nowhere",)),
        Selection(key="nobody"),
        Selection(error="never"),
        Selection(ids=("job-0",)),
    ],
)
def test_a_page_is_read_without_walking_over_the_rest(store: PlainStore, selection: Selection) -> None:
    finished(store)
    unknown_lane(store)

    cost = instructions(store, store.find(selection, Page(limit=5)))

    assert cost < 2000


def test_a_page_of_a_long_queue_is_found_among_the_newest_jobs(
    store: PlainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "WINDOW", 50)
    store.run(store.put(requests(MANY)))
    waiting = Selection(tasks=(TASK,), states=(State.WAITING,))

    cost = instructions(store, store.find(waiting, Page(limit=5)))

    assert cost < 2000


def test_jobs_are_counted_without_a_look_at_any_of_them(store: PlainStore) -> None:
    store.run(store.put(requests(MANY)))

    cost = instructions(store, store.count(Selection(tasks=(TASK,), states=(State.WAITING,))))

    assert cost < 10 * MANY


def statements(store: PlainStore, operation: Operation[Any]) -> int:
    store.texts.clear()
    store.run(operation)
    return len(store.texts)


def test_a_batch_takes_a_handful_of_statements(store: PlainStore) -> None:
    assert statements(store, store.put(requests(500))) <= 5
    assert statements(store, store.put([request(key=f"k{n}") for n in range(500)])) <= 6
    assert statements(store, store.turn(done(lend(store, limit=250)), ask(limit=250))) <= 15


def test_jobs_with_keys_settle_together_when_nobody_waits_behind_them(store: PlainStore) -> None:
    store.run(store.put([request(key=f"k{n}") for n in range(300)]))
    claims = lend(store, limit=300)

    assert statements(store, store.settle("w1", done(claims))) <= 6
    assert states(store) == {State.DONE}
