"""search: free text in keys, arguments and errors, newest first, as deep as it may go."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.contract.arrange import HOUR, KEY, TASK, ask, claim, put, put_one, request, settle, start

from duly.fingerprints import fingerprint
from duly.job import State
from duly.lifecycle import Done, Fail
from duly.stores.contract import Lane, Page, Selection, Store
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


SELECTIONS = {
    "all": Selection(),
    "a state": Selection(states=(State.DONE,)),
    "another state": Selection(states=(State.FAILED,)),
    "what waits": Selection(states=(State.WAITING,)),
    "live and ended": Selection(states=(State.WAITING, State.FAILED)),
    "a task": Selection(tasks=("other",)),
    "a task that failed": Selection(tasks=("other",), states=(State.FAILED,)),
    "a queue": Selection(queues=("io",), states=(State.DONE,)),
    "an error": Selection(error="lookup"),
    "an error of a task": Selection(error="lookup", tasks=("other",)),
    "a cause": Selection(fingerprint=fingerprint("LookupError: no Ann")),
    "no such task": Selection(tasks=("nobody",)),
}


def stretches(store: Store, selection: Selection, text: str) -> list[str]:
    """What is found, a few jobs at a time and few looked at for each time."""
    seen: list[str] = []
    before: int | None = None
    for _ in range(30):
        found = store.run(store.search(selection, Search(text, limit=3, depth=4, before=before)))
        assert len(found.jobs) <= 3
        seen, before = seen + ids(found), found.next
        if before is None:
            return seen
    raise AssertionError(f"A search for {selection} does not end.")


@pytest.mark.parametrize("text", ["", "job"])
def test_stretch_after_stretch_a_search_passes_every_job_once(store: Store, text: str) -> None:
    for number in range(24):
        task, queue = "other" if number % 7 == 0 else TASK, "io" if number % 5 == 0 else "cpu"
        wanted = request(arguments=f'[["job {number}"],{{}}]', task=task, queue=queue)
        if number % 3:
            ends = Fail("LookupError: no Ann" if number % 2 else "OSError: no Bob") if number % 4 else Done()
            put_one(store, wanted)
            [lent] = claim(store, ask(lanes=(Lane(TASK), Lane("other")))).claims
            settle(store, lent, ends)
        else:
            put_one(store, replace(wanted, delay=HOUR))

    found = {name: stretches(store, selection, text) for name, selection in SELECTIONS.items()}

    listed = {name: store.run(store.find(selection, Page())) for name, selection in SELECTIONS.items()}
    assert found == {name: [job.id for job in jobs] for name, jobs in listed.items()}
    assert all(bool(jobs) is (name != "no such task") for name, jobs in found.items())


def test_an_empty_store_has_nothing_to_search(store: Store) -> None:
    assert search(store, "ann") == Found([], None)


def test_a_find_tells_all_of_a_job(mixed: Store) -> None:
    [job] = search(mixed, "no ann").jobs

    assert (job.id, job.error, job.state) == ("error", "LookupError: no Ann, 100% sure_", State.FAILED)
