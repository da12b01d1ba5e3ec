"""A bundle is what its requests are, whoever looks at it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from duly import Duly
from duly.bundle import Bundle, Later, at_hand, patterns
from duly.errors import WrongSignature
from duly.job import Guard, Request
from duly.stores.drive import Operation
from duly.task import SHAPES, Call

PATTERN = Request(
    id="", task="shop.send", arguments="", queue="io", priority=3, key="a", guard=Guard(timedelta(seconds=1))
)
BUNDLE = Bundle(PATTERN, ["1", "2", "3"], ["[[1],{}]", "[[2],{}]", "[[3],{}]"])
EACH = [replace(PATTERN, id=str(number), arguments=f"[[{number}],{{}}]") for number in (1, 2, 3)]


def test_a_bundle_reads_as_its_requests() -> None:
    assert len(BUNDLE) == 3
    assert list(BUNDLE) == EACH
    assert [BUNDLE[0], BUNDLE[-1]] == [EACH[0], EACH[-1]]
    assert list(BUNDLE[1:]) == EACH[1:]


def test_one_pattern_stands_for_a_bundle_and_nothing_for_an_empty_one() -> None:
    assert list(patterns(BUNDLE)) == [PATTERN]
    assert list(patterns(BUNDLE[3:])) == []
    assert list(patterns(EACH)) == EACH


def test_a_shape_that_was_right_once_does_not_let_another_pass() -> None:
    app = Duly("memory://")

    @app.task
    def send(number: int, *, to: str = "all") -> None: ...

    send.enqueue(1)
    send.enqueue(1, to="me")

    for args, kwargs in (
        ((), {}),
        ((1, 2), {}),
        ((1,), {"too": "me"}),
        ((1,), {"number": 1}),
        ((), {"to": "me"}),
    ):
        with pytest.raises(WrongSignature):
            send.enqueue_many([(args, kwargs)])


def test_names_that_a_caller_makes_up_do_not_fill_the_memory() -> None:
    app = Duly("memory://")

    @app.task
    def send(**words: int) -> None: ...

    for number in range(SHAPES + 10):
        send.check((), {f"word{number}": 1})

    assert len(send._shapes) == SHAPES  # pyright: ignore[reportPrivateUsage]


def test_requests_made_in_another_context_carry_it() -> None:
    from duly import bind

    app = Duly("memory://")

    @app.task
    def send(number: int) -> None: ...

    first = send.enqueue(1)
    with bind(order=17):
        second, third = send.enqueue_many([((2,), {}), ((3,), {})])
    last = send.enqueue(4)

    contexts = [app.jobs.get(job.id).context for job in (first, second, third, last)]
    assert contexts == ["{}", '{"order": 17}', '{"order": 17}', "{}"]


def test_texts_are_made_up_to_where_somebody_asks_and_once() -> None:
    made: list[tuple[int, int]] = []

    def make(start: int, stop: int) -> list[str]:
        made.append((start, stop))
        return [str(number) for number in range(start, stop)]

    later = Later(5, make)

    assert (len(later), made) == (5, [])
    assert (later[0:2], later[1:2], later[0:3]) == (["0", "1"], ["1"], ["0", "1", "2"])
    assert made == [(0, 2), (2, 3)]
    assert (later[-1], list(later), later[::2]) == ("4", ["0", "1", "2", "3", "4"], ["0", "2", "4"])
    assert made == [(0, 2), (2, 3), (3, 5)]


def test_what_cannot_be_made_raises_each_time() -> None:
    def make(start: int, stop: int) -> list[str]:
        if stop > 2:
            raise ValueError("the third")
        return ["text"] * (stop - start)

    later = Later(3, make)

    assert later[:2] == ["text"] * 2
    for _ in range(2):
        with pytest.raises(ValueError, match="the third"):
            list(later)


def test_nothing_is_left_to_be_made_of_what_is_at_hand() -> None:
    bundle = Bundle(
        PATTERN, Later(2, lambda start, stop: ["1", "2"]), Later(2, lambda start, stop: ["a", "b"])
    )

    found = at_hand(bundle)

    assert isinstance(found, Bundle)
    assert (found.ids, found.arguments) == (["1", "2"], ["a", "b"])
    assert at_hand(EACH) is EACH
    assert at_hand(BUNDLE) is BUNDLE


def test_a_generator_may_give_the_same_object_again_with_other_values() -> None:
    app = Duly("memory://")

    @app.task
    def store(row: dict[str, int]) -> None: ...

    def calls() -> Iterator[Call]:
        row: dict[str, int] = {}
        for number in range(3):
            row["number"] = number
            yield (row,), {}

    stored = [app.jobs.get(job.id).arguments for job in store.enqueue_many(calls())]

    assert stored == [f'[[{{"number":{number}}}],{{}}]' for number in range(3)]


async def test_arguments_are_stored_as_they_were_when_a_coroutine_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Duly("memory://")
    perform, row = app.store.arun, {"number": 0}

    @app.task
    def store(row: dict[str, int]) -> None: ...

    async def perform_later(operation: Operation[Any]) -> Any:
        row["number"] = 1  # what others on the loop do while the store is spoken to
        return await perform(operation)

    monkeypatch.setattr(app.store, "arun", perform_later)

    (job,) = await store.aenqueue_many([((row,), {})])

    assert app.jobs.get(job.id).arguments == '[[{"number":0}],{}]'
