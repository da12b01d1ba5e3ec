"""Errors of one cause have one name; errors of two causes have two."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from datetime import timedelta

import pytest

from duly.fingerprints import LEASE_RAN_OUT, fingerprint, headline
from duly.lifecycle import Again, Crash, Done, Fail, Stop, TryAgain, Verdict, fingerprint_of, named


def text_of(call: Callable[[], object]) -> str:
    try:
        call()
    except BaseException as error:
        return "".join(traceback.format_exception(error)).rstrip()
    raise AssertionError("it was to fail")


def lookup(lease: int, owner: str = "ann") -> None:
    raise LookupError(f"no lease {lease} of {owner!r} <{owner}@example.org> at 0x{lease:x}")


def other_lookup(lease: int) -> None:
    raise LookupError(f"no lease {lease} of 'ann' <ann@example.org> at 0x{lease:x}")


def frame(path: str, line: int = 7, name: str = "charge") -> str:
    return f'  File "{path}", line {line}, in {name}\n    pay()\n'


def story(*frames: str, error: str = "ValueError: no") -> str:
    return "Traceback (most recent call last):\n" + "".join(frames) + error


def test_numbers_names_and_addresses_make_no_difference() -> None:
    assert fingerprint(text_of(lambda: lookup(7))) == fingerprint(text_of(lambda: lookup(4711, "bob")))


def test_the_name_is_short_and_plain() -> None:
    name = fingerprint(text_of(lambda: lookup(7)))

    assert len(name) == 12
    assert int(name, 16) >= 0


def test_another_place_is_another_cause() -> None:
    assert fingerprint(text_of(lambda: lookup(7))) != fingerprint(text_of(lambda: other_lookup(7)))


SAME = {
    "a line that moved": (story(frame("/srv/shop/tasks.py", 7)), story(frame("/srv/shop/tasks.py", 99))),
    "another folder above": (story(frame("/srv/a/shop/tasks.py")), story(frame("/home/b/shop/tasks.py"))),
    "another release": (story(frame("/srv/r-1/tasks.py")), story(frame("/srv/r-2/tasks.py"))),
    "another machine's paths": (story(frame("/srv/shop/tasks.py")), story(frame("C:\\srv\\shop\\tasks.py"))),
    "a library's frames": (
        story(frame("/srv/shop/tasks.py"), frame("/v/lib/python3.11/site-packages/pay/core.py")),
        story(frame("/srv/shop/tasks.py"), frame("/v/lib/python3.12/json/decoder.py", name="decode")),
    ),
    "how deep a recursion went": (
        story(*[frame("/srv/shop/tasks.py")] * 2),
        story(*[frame("/srv/shop/tasks.py")] * 30),
    ),
    "further lines of a message": (story(error="ValueError: no\nbecause"), story(error="ValueError: no")),
    "the host of a lost worker": ("lease ran out on a.example", "lease ran out on b"),
    "a number in a sentence": ("hard limit of 5 s exceeded", "hard limit of 0.5 s exceeded"),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_what_differs_between_two_of_a_kind_is_left_out(one: str, other: str) -> None:
    assert fingerprint(one) == fingerprint(other)


DIFFERENT = {
    "class": (story(error="ValueError: no"), story(error="KeyError: no")),
    "message": (story(error="ValueError: no"), story(error="ValueError: yes")),
    "function": (story(frame("/s/t.py", name="a")), story(frame("/s/t.py", name="b"))),
    "file": (story(frame("/s/t.py")), story(frame("/s/u.py"))),
    "a sentence and its opposite": ("hard limit exceeded", "soft limit exceeded"),
    "an error and a crash": ("lease ran out on a", "crashed: lease ran out on a"),
    "only libraries": (
        story(frame("/v/site-packages/a/x.py", name="a")),
        story(frame("/v/site-packages/a/x.py", name="b")),
    ),
}


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_what_tells_two_causes_apart_counts(one: str, other: str) -> None:
    assert fingerprint(one) != fingerprint(other)


def chained() -> None:
    try:
        lookup(7)
    except LookupError as error:
        raise RuntimeError("cannot charge\nfor reasons") from error


async def grouped() -> None:
    async def bad() -> None:
        raise OSError("the line is cut")

    async with asyncio.TaskGroup() as group:
        group.create_task(bad())


def test_the_last_exception_of_a_chain_is_what_it_comes_down_to() -> None:
    assert headline(text_of(chained)) == "RuntimeError: cannot charge"


def test_a_group_comes_down_to_its_member() -> None:
    assert headline(text_of(lambda: asyncio.run(grouped()))) == "OSError: the line is cut"


def test_an_exception_without_a_message_is_its_class() -> None:
    assert headline(story(frame("/s/t.py"), error="shop.errors.Gone")) == "shop.errors.Gone"


def test_a_sentence_comes_down_to_itself() -> None:
    assert headline("\nhard limit of 5 s exceeded\n") == "hard limit of 5 s exceeded"


CUT = {
    "nothing": "",
    "blank": " \n ",
    "a header alone": "Traceback (most recent call last):",
    "half": "\ud800",
}


@pytest.mark.parametrize("text", CUT.values(), ids=CUT)
def test_whatever_is_left_of_an_error_has_a_name(text: str) -> None:
    assert len(fingerprint(text)) == 12


def test_a_traceback_that_was_cut_at_its_beginning_still_tells_the_cause() -> None:
    whole = story(frame("/s/t.py", name="outer"), frame("/s/t.py"), frame("/s/t.py", name="pay"))
    cut = "… " + whole[20:]

    assert fingerprint(cut) == fingerprint(whole)


def test_lost_workers_are_named_by_the_engine() -> None:
    assert LEASE_RAN_OUT in headline("lease ran out on host-1")


ERROR = story(frame("shop/till.py"), error="ValueError: bad \udc80 byte")


@pytest.mark.parametrize(
    "verdict",
    [Fail(ERROR), TryAgain(timedelta(0), ERROR), Again(error=ERROR), Stop(ERROR)],
    ids=lambda verdict: type(verdict).__name__,
)
def test_a_verdict_brings_the_name_that_a_store_would_find(verdict: Verdict) -> None:
    brought = named(verdict)

    assert getattr(brought, "fingerprint", None) == fingerprint_of(verdict) is not None
    assert fingerprint_of(brought) == fingerprint_of(verdict)
    assert brought == verdict


def test_a_verdict_that_nobody_named_is_named_by_the_store() -> None:
    assert fingerprint_of(Crash("signal 9", counted=True)) == fingerprint("crashed: signal 9")
    assert fingerprint_of(named(Done())) is None
