"""search: free text in keys, arguments and errors, newest first, as deep as it may go."""

from __future__ import annotations

import pytest
from tests.contract.arrange import KEY, put, put_one, request, settle, start

from duly.job import State
from duly.lifecycle import Fail
from duly.stores.contract import Selection, Store
from duly.stores.reports import Found, Search


def search(store: Store, text: str, selection: Selection | None = None, **terms: int) -> Found:
    return store.run(store.search(selection or Selection(), Search(text, **terms)))


def ids(found: Found) -> list[str]:
    return [job.id for job in found.jobs]


@pytest.fixture
def mixed(store: Store) -> Store:
    """One job for each place a text can be in, and one with none of them."""
    settle(store, start(store, request(id="error")), Fail("LookupError: no Ann, 100% sure_"))
    put(
        store,
        request(id="nobody"),
        request(id="argument", arguments='[["Ann"],{"street":"Größer Weg"}]'),
        request("ann:7", id="key", task="other"),
    )
    return store


CASES = {
    "anywhere": ("ann", ["key", "argument", "error"]),
    "in any case": ("ANN", ["key", "argument", "error"]),
    "beyond ascii": ("GRÖSSER".replace("SS", "ß"), ["argument"]),
    "a percent sign is no wildcard": ("100%", ["error"]),
    "no wildcard": ("1%e", list[str]()),
    "an underscore is no wildcard": ("a_n", list[str]()),
    "everything": ("", ["key", "argument", "nobody", "error"]),
    "nothing": ("bob", list[str]()),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_a_text_is_found_wherever_it_is(mixed: Store, text: str, expected: list[str]) -> None:
    found = search(mixed, text)

    assert (ids(found), found.next) == (expected, None)


def test_filters_narrow_what_is_searched(mixed: Store) -> None:
    failed = search(mixed, "ann", Selection(states=(State.FAILED,)))
    other = search(mixed, "ann", Selection(tasks=("other",)))
    named = search(mixed, "ann", Selection(ids=("key", "nobody")))
    both = search(mixed, "sure", Selection(error="lookup"))

    assert [ids(found) for found in (failed, other, named, both)] == [["error"], ["key"], ["key"], ["error"]]


def test_no_more_jobs_are_answered_than_asked_for_and_the_rest_follows(store: Store) -> None:
    for number in range(7):
        put_one(store, request(id=f"job {number}", arguments=f'[["ann {number}"],{{}}]'))
        put_one(store, request(id=f"other {number}"))
    seen: list[str] = []
    before: int | None = None
    for _ in range(20):
        found = store.run(store.search(Selection(), Search("ann", limit=3, before=before)))
        assert len(found.jobs) <= 3
        seen += ids(found)
        before = found.next
        if before is None:
            break

    assert seen == [f"job {number}" for number in reversed(range(7))]


def test_a_search_goes_only_so_deep_and_says_where_to_go_on(store: Store) -> None:
    put_one(store, request(KEY, id="wanted"))
    put(store, *(request() for _ in range(1500)))

    shallow = search(store, KEY, depth=1200)
    assert shallow.next is not None
    rest = search(store, KEY, before=shallow.next)

    assert (ids(shallow), ids(rest), rest.next) == ([], ["wanted"], None)


def test_an_empty_store_has_nothing_to_search(store: Store) -> None:
    assert search(store, "ann") == Found([], None)


def test_a_find_tells_all_of_a_job(mixed: Store) -> None:
    [job] = search(mixed, "no ann").jobs

    assert (job.id, job.error, job.state) == ("error", "LookupError: no Ann, 100% sure_", State.FAILED)
