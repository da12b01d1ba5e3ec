"""A bundle is what its requests are, whoever looks at it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from duly import Duly
from duly.bundle import Bundle, patterns
from duly.errors import WrongSignature
from duly.job import Guard, Request
from duly.task import SHAPES

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
