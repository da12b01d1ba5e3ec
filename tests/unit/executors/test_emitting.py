"""What a body in a child process says while it runs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.executors.conftest import Mailbox, ended_within, ignore

from duly.executors.children import Children, Errand

LARGE = bytes(range(256)) * 4_000  # a megabyte, many times what a socket holds


def test_ten_thousand_messages_arrive_in_order(children: Children, mailbox: Mailbox) -> None:
    answer = children.submit(Errand("bodies:counts", b"10000"), mailbox).result(60)

    assert answer == b"counted"
    assert mailbox.all() == [str(number).encode() for number in range(10_000)]


def test_messages_from_several_threads_of_a_body_stay_whole(children: Children, mailbox: Mailbox) -> None:
    children.submit(Errand("bodies:counts_in_threads", b"500"), mailbox).result(60)

    assert sorted(map(int, mailbox.all())) == sorted([*range(500)] * 4)


def test_large_messages_pass_in_both_directions(children: Children, mailbox: Mailbox) -> None:
    answer = children.submit(Errand("bodies:emits_large", LARGE), mailbox).result(60)

    assert answer == LARGE * 2
    assert mailbox.all() == [LARGE]


def test_a_limit_never_cuts_a_message_in_two(children: Children, mailbox: Mailbox) -> None:
    errand = Errand("bodies:emits_until_stopped", b"", soft_limit=timedelta(seconds=0.2))

    answer = children.submit(errand, mailbox).result(60)

    *before, last = mailbox.all()
    assert answer == b"whole"
    assert set(before) <= {b"x" * 50_000}
    assert last == b"limit"


def test_a_thread_that_outlives_its_body_does_not_speak_for_the_next(
    children: Children, mailbox: Mailbox
) -> None:
    children.submit(Errand("bodies:leaves_a_thread", b""), ignore).result(60)

    children.submit(Errand("bodies:lets_it_speak", b""), mailbox).result(60)

    assert mailbox.all() == [b"mine"]


def test_a_message_that_cannot_be_taken_ends_the_errand(children: Children) -> None:
    heard: list[int] = []

    def refuse(message: bytes) -> None:
        heard.append(int(message))
        raise LookupError("nobody knows this job")

    future = children.submit(Errand("bodies:sleep", b""), refuse)

    with pytest.raises(LookupError, match="nobody knows this job"):
        future.result(60)
    assert ended_within(heard[0], 0)
    assert children.submit(Errand("bodies:echo", b"replaced"), ignore).result(60) == b"replaced"
