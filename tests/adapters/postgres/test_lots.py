"""What one message lends: told in one row where jobs agree, in rows of their own where they do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.adapters.postgres.arrange import asking, claim, due_long_ago, ended, find, put, request, settle

from duly.job import Claim, State
from duly.lifecycle import Done, Settled, TryAgain
from duly.stores.contract import Settlement, Turned
from duly.stores.drive import Row
from duly.stores.postgres import PostgresStore
from duly.stores.postgres.wire import Wire

ODD = ["", "[[],{}]", "\uffff,", "\uffff", "\0", "\0,\uffff0", ",", '"\\{}', "\uffff,\uffff1,", "ü🎉"]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[list[Row]]:
    """What the server answers to the last statement of each message."""
    heard: list[list[Row]] = []
    speak = Wire.say

    def overheard(wire: Wire, *said: Any) -> list[list[Row]]:
        told = speak(wire, *said)
        heard.append(told[-1])
        return told

    monkeypatch.setattr(Wire, "say", overheard)
    return heard


@pytest.fixture
def store(store: PostgresStore) -> PostgresStore:
    """One that knows its lane, and the server its worker; the first claims were not for a message."""
    for _ in range(4):
        put(store, request())
        settle(store, *claim(store))
    return store


def turn(store: PostgresStore, *settlements: Settlement, limit: int = 100) -> Turned:
    return store.run(store.turn(settlements, asking(limit=limit)))


def lent(store: PostgresStore, *, limit: int = 100) -> Sequence[Claim]:
    return turn(store, limit=limit).claimed.claims


def test_any_text_is_lent_as_it_was_given(store: PostgresStore, answers: list[list[Row]]) -> None:
    put(store, *(replace(request(arguments=odd), context=odd[::-1]) for odd in ODD))
    answers.clear()

    claims = lent(store)

    assert [(one.arguments, one.context) for one in claims] == [(odd, odd[::-1]) for odd in ODD]
    assert [len(rows) for rows in answers] == [1]


def test_each_claim_says_what_its_job_says(store: PostgresStore) -> None:
    put(store, *(due_long_ago(request(arguments=f"[[{number}],{{}}]")) for number in range(5)), request())

    claims = {one.id: one for one in lent(store)}

    jobs = find(store, *claims)
    assert len(jobs) == 6
    for job in jobs:
        one = claims[job.id]
        assert (one.generation, one.epoch, one.due) == (job.generation, job.epoch, job.due)
        assert (one.arguments, one.task, one.queue, one.cycle) == (
            job.arguments,
            job.task,
            job.queue,
            job.cycle,
        )


def test_jobs_that_ran_before_and_new_ones_are_lent_in_order(
    store: PostgresStore, answers: list[list[Row]]
) -> None:
    (failed,) = put(store, request())
    (tried,) = lent(store)
    (second,) = put(store, request())
    settlement = Settlement(tried.fence, TryAgain(timedelta(0), "no"))
    store.run(store.settle("w1", [settlement]))
    (third,) = put(store, request())
    answers.clear()

    claims = lent(store)

    assert [one.id for one in claims] == [second.id, failed.id, third.id]
    assert [(one.attempt, one.epoch) for one in claims] == [(0, 1), (1, 2), (0, 1)]
    assert [len(rows) for rows in answers] == [2]
    assert turn(store, *ended(*claims)).answers == [Settled.SETTLED] * 3


def test_lanes_of_several_priorities_are_lent_from_in_order(store: PostgresStore) -> None:
    low, high = replace(request(), priority=-1), replace(request(), priority=5)
    put(store, low, request(), high)
    settle(store, *claim(store))  # now every lane is known
    placed = [put(store, replace(request(), priority=priority))[0].id for priority in (-1, 0, 5, 0, 5, -1)]

    first, rest = lent(store, limit=4), lent(store)

    assert [one.id for one in first] == [placed[place] for place in (2, 4, 1, 3)]
    assert [one.id for one in rest] == [placed[place] for place in (0, 5)]


def test_ends_of_several_claims_are_settled_in_one_turn(store: PostgresStore) -> None:
    put(store, *(request() for _ in range(6)))
    claims = [*lent(store, limit=2), *lent(store, limit=3), *lent(store)]

    turned = turn(store, *(Settlement(one.fence, Done()) for one in claims))

    assert turned.answers == [Settled.SETTLED] * 6
    assert {job.state for job in find(store, *(one.id for one in claims))} == {State.DONE}


def test_an_end_among_others_is_refused_by_its_own_epoch(store: PostgresStore) -> None:
    put(store, *(request() for _ in range(3)))
    claims = lent(store)
    late = claims[1].fence._replace(epoch=7)

    turned = turn(store, *ended(claims[0]), Settlement(late, Done()), *ended(claims[2]))

    assert turned.answers == [Settled.SETTLED, Settled.LOST, Settled.SETTLED]
