"""SoftLimitExceeded in the body of a child process, wherever the body is."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.executors.conftest import ignore

from duly.executors.children import ChildFailed, Children, Errand

LIMIT = timedelta(seconds=0.2)


@pytest.mark.parametrize(
    "entry",
    [
        "bodies:limited_sleep",
        "bodies:limited_socket",
        "bodies:limited_loop",
        "async_bodies:limited_await",
        "async_bodies:limited_blocking_code",
        "async_bodies:limited_blocking_subtask",
        "async_bodies:limited_blocking_stranger",
    ],
)
def test_a_soft_limit_reaches_a_body_wherever_it_is(children: Children, entry: str) -> None:
    answer = children.submit(Errand(entry, b"", soft_limit=LIMIT), ignore).result(60)

    assert 0.15 < float(answer) < 60


def test_a_soft_limit_that_nobody_catches_is_the_failure(children: Children) -> None:
    with pytest.raises(ChildFailed) as raised:
        children.submit(Errand("bodies:sleep", b"", soft_limit=LIMIT), ignore).result(60)

    assert raised.value.name == "duly.errors.SoftLimitExceeded"


def test_a_limit_that_comes_too_late_never_strikes_the_next_body(children: Children) -> None:
    met = missed = 0
    for _ in range(150):
        limited = Errand("bodies:work_for", b"0.002", soft_limit=timedelta(seconds=0.002))
        first = children.submit(limited, ignore)
        second = children.submit(Errand("bodies:work_for", b"0.002"), ignore)

        met += first.exception(60) is not None
        missed += first.exception(60) is None
        assert second.result(60) == b"worked"

    assert met + missed == 150
