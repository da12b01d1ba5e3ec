"""jot and diary: short texts one after the other, each kept for a while."""

from __future__ import annotations

import pytest
from tests.contract.arrange import HOUR, MINUTE, SECOND, put_one, request

from duly.stores.contract import Store
from duly.stores.reports import Entry
from duly.testing import VirtualClock
from duly.testing.clock import START


def jot(store: Store, text: str, *, kind: str = "audit", number: int | None = None) -> int:
    return store.run(store.jot(kind, text, keep=HOUR, number=number))


def texts(store: Store, kind: str = "audit") -> list[str]:
    return [entry.text for entry in store.run(store.diary(kind, limit=100))]


def test_an_entry_is_read_back_with_its_number_and_the_stores_time(store: Store, clock: VirtualClock) -> None:
    clock.advance(SECOND)

    number = jot(store, "ann paused it")

    assert store.run(store.diary("audit", limit=100)) == [Entry(number, START + SECOND, "ann paused it")]


def test_the_newest_comes_first_and_kinds_are_apart(store: Store) -> None:
    jot(store, "one")
    jot(store, "else", kind="pulse")
    jot(store, "two")

    assert texts(store) == ["two", "one"]
    assert texts(store, "pulse") == ["else"]
    assert texts(store, "nothing") == []


def test_pages_follow_each_other(store: Store) -> None:
    for number in range(5):
        jot(store, str(number))
        put_one(store, request())  # jobs draw from the same counter
    seen: list[str] = []
    before: int | None = None
    while page := store.run(store.diary("audit", limit=2, before=before)):
        seen += [entry.text for entry in page]
        before = page[-1].number

    assert seen == ["4", "3", "2", "1", "0"]


def test_only_what_is_not_older_is_read(store: Store, clock: VirtualClock) -> None:
    jot(store, "old")
    clock.advance(MINUTE)
    jot(store, "on the minute")
    clock.advance(SECOND)
    jot(store, "new")

    found = store.run(store.diary("audit", limit=100, since=START + MINUTE))

    assert [entry.text for entry in found] == ["new", "on the minute"]


def test_an_entry_is_rewritten_in_its_place(store: Store, clock: VirtualClock) -> None:
    number = jot(store, "begun")
    jot(store, "between")
    clock.advance(MINUTE)

    again = jot(store, "ended", number=number)

    assert again == number
    assert store.run(store.diary("audit", limit=100))[-1] == Entry(number, START, "ended")
    assert texts(store) == ["between", "ended"]


def test_an_entry_that_is_gone_is_written_anew(store: Store, clock: VirtualClock) -> None:
    number = jot(store, "old")
    clock.advance(2 * HOUR)
    store.run(store.prune(10))

    again = jot(store, "new", number=number)

    assert again != number
    assert texts(store) == ["new"]


def test_no_entry_of_another_kind_is_rewritten(store: Store) -> None:
    number = jot(store, "an order")

    jot(store, "a pulse", kind="pulse", number=number)

    assert (texts(store), texts(store, "pulse")) == (["an order"], ["a pulse"])


def test_pruning_forgets_entries_whose_time_is_over(store: Store, clock: VirtualClock) -> None:
    jot(store, "old")
    store.run(store.jot("audit", "kept longer", keep=3 * HOUR))
    clock.advance(HOUR)
    store.run(store.prune(10))

    assert texts(store) == ["kept longer"]


TEXTS = {"empty": "", "zero": "a\0b", "words": "Grüße 🎉", "quotes": "\"'\\%s:name", "long": "x" * 20_000}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_any_text_can_be_written_down(store: Store, text: str) -> None:
    jot(store, text)

    assert texts(store) == [text]
