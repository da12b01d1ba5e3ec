"""Many requests in one statement, and what must not get lost on that way."""

from __future__ import annotations

from enum import Enum

import pytest
from tests.unit.sqlite_operations.arrange import SECOND, job, lend, request, requests
from tests.unit.sqlite_operations.driver import PlainStore

import duly.stores.sqlite.operations.put as module
from duly.job import Decision, Request


class Queue(str, Enum):  # noqa: UP042  as people wrote them before there was StrEnum
    MAIL = "mail"


@pytest.mark.parametrize("amount", [1, 2])
def test_a_word_of_an_enumeration_is_stored_as_what_it_stands_for(store: PlainStore, amount: int) -> None:
    wanted = requests(amount, queue=Queue.MAIL)

    store.run(store.put(wanted))

    assert [job(store, each.id).queue for each in wanted] == ["mail"] * amount


def generations(store: PlainStore, wanted: list[Request]) -> list[int]:
    return [placed.generation for placed in store.run(store.put(wanted))]


def test_generations_rise_in_the_order_of_the_requests(store: PlainStore) -> None:
    mixed = [request(), request(key="a"), request(priority=3), request(key="b"), request()]

    assert generations(store, mixed) == [1, 2, 3, 4, 5]
    assert generations(store, requests(3)) == [6, 7, 8]


def test_a_request_that_was_stored_before_draws_no_generation(store: PlainStore) -> None:
    first = request()
    generations(store, [first])

    placed = store.run(store.put([request(), first, request()]))

    assert [one.decision for one in placed] == [Decision.CREATED, Decision.KEPT, Decision.CREATED]
    assert [one.generation for one in placed] == [2, 1, 3]


@pytest.mark.parametrize("last", [2, 1])
def test_the_number_of_a_deleted_job_is_never_given_again(store: PlainStore, last: int) -> None:
    single = generations(store, [request()])
    several = generations(store, requests(last))

    store.connection.execute("delete from duly_job")

    following = generations(store, [request()])
    assert single < several < following
    assert following < generations(store, requests(2))


def test_numbers_drawn_for_something_else_rise_beyond_those_of_single_requests(store: PlainStore) -> None:
    [before] = generations(store, [request()])
    grip = store.run(store.grip("one", "owner", SECOND))
    [after] = generations(store, [request()])

    assert grip is not None
    assert before < grip.token < after


def test_a_request_made_twice_in_one_batch_is_stored_once(store: PlainStore) -> None:
    twice = request()

    placed = store.run(store.put([twice, twice, request()]))

    assert [one.decision for one in placed] == [Decision.CREATED, Decision.KEPT, Decision.CREATED]
    assert len(lend(store)) == 2


@pytest.mark.parametrize("text", ["a\0b", "\\u0000", "é𝄞", "'; --", '\n\t"\\'])
def test_texts_come_back_as_they_were(store: PlainStore, text: str) -> None:
    alike = [request(arguments=text, context=text) for _ in range(3)]
    keyed = [request(key=f"{text}{n}", queue=text) for n in range(3)]
    store.run(store.put(alike + keyed))

    claims = {claim.id: claim for claim in lend(store)}

    assert {claims[one.id].arguments for one in alike} == {text}
    assert {claims[one.id].context for one in alike} == {text}
    assert [claims[one.id].key for one in keyed] == [one.key for one in keyed]
    assert {claims[one.id].queue for one in keyed} == {text}


def test_a_text_that_nobody_could_read_back_is_refused(store: PlainStore) -> None:
    with pytest.raises(UnicodeEncodeError):
        store.run(store.put([request(arguments="\ud800"), request()]))

    assert lend(store) == []


def test_more_requests_than_one_statement_takes_are_stored_in_slices(
    store: PlainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLICE", 10)
    wanted = requests(25)

    assert generations(store, wanted) == list(range(1, 26))
    assert [claim.id for claim in lend(store)] == [one.id for one in wanted]


def test_requests_that_differ_in_everything_keep_their_differences(store: PlainStore) -> None:
    late = request(delay=5 * SECOND)
    short = request(expires_after=5 * SECOND, priority=4)

    store.run(store.put([late, short]))

    assert job(store, late.id).due - job(store, short.id).due == 5 * SECOND
    assert job(store, late.id).expires_at is None
    assert job(store, short.id).priority == 4
