"""finish: the short way to end an exactly-once run. It ends what `settle` would simply end, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.arrange import HOUR, KEY, cancel, look, put_one, replacing, request, settle, start

from duly.job import Claim, Overlap, State
from duly.lifecycle import Done, Fail, Settled, Verdict
from duly.stores.contract import Settlement
from duly.stores.sqlite import SqliteStore
from duly.testing import VirtualClock


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    made = SqliteStore(f"sqlite:///{tmp_path / 'duly.db'}", clock=VirtualClock())
    yield made
    made.close()


def finish(store: SqliteStore, lent: Claim, verdict: Verdict | None = None) -> bool:
    return store.run(store.finish(Settlement(lent.fence, verdict or Done(), generation=lent.generation)))


@pytest.mark.parametrize("verdict", [Done(), Done("1", HOUR), Done("a\0b", HOUR)], ids=repr)
@pytest.mark.parametrize("key", [None, KEY])
def test_it_leaves_what_settle_leaves(store: SqliteStore, verdict: Done, key: str | None) -> None:
    settled = start(store, request(key))
    assert settle(store, settled, verdict) is Settled.SETTLED
    finished = start(store, request(key))

    assert finish(store, finished, verdict)

    expected, found = look(store, settled.id), look(store, finished.id)
    assert replace(found, id=expected.id, generation=expected.generation, history=()) == replace(
        expected, history=()
    )
    assert [replace(line, generation=0) for line in found.history] == [
        replace(line, generation=0) for line in expected.history
    ]


def later_epoch(_store: SqliteStore, lent: Claim) -> Claim:
    return lent._replace(epoch=lent.epoch + 1)


def other_nonce(_store: SqliteStore, lent: Claim) -> Claim:
    return lent._replace(nonce="forged")


def ended(store: SqliteStore, lent: Claim) -> Claim:
    settle(store, lent, Fail("boom"))
    return lent


def cancelled(store: SqliteStore, lent: Claim) -> Claim:
    cancel(store, lent.id)
    return lent


def superseded(store: SqliteStore, lent: Claim) -> Claim:
    put_one(store, replacing(KEY, overlap=Overlap.ALLOW))
    return lent


def with_one_queued(store: SqliteStore, lent: Claim) -> Claim:
    put_one(store, request(KEY))
    return lent


def with_one_offered(store: SqliteStore, lent: Claim) -> Claim:
    store.run(store.offer([request("another")]))
    return lent


def behind_a_notice(store: SqliteStore, lent: Claim) -> Claim:
    store.run(store.seal("move", "elsewhere"))
    return lent


@pytest.mark.parametrize(
    "happens",
    [
        later_epoch,
        other_nonce,
        ended,
        cancelled,
        superseded,
        with_one_queued,
        with_one_offered,
        behind_a_notice,
    ],
)
def test_whatever_needs_a_decision_is_left_as_it_is(
    store: SqliteStore, happens: Callable[[SqliteStore, Claim], Claim]
) -> None:
    lent = happens(store, start(store, request(KEY)))
    before = look(store, lent.id)

    assert not finish(store, lent)

    assert look(store, lent.id) == before


@pytest.mark.parametrize("place", [None, "another job's", "nowhere"])
def test_the_fence_says_which_job_it_is(store: SqliteStore, place: str | None) -> None:
    lent, other = start(store, request()), start(store, request())
    generations = {None: None, "another job's": other.generation, "nowhere": 10**9}

    ends = store.run(store.finish(Settlement(lent.fence, Done(), generation=generations[place])))

    assert ends is (place is None)
    assert look(store, other.id).state is State.RUNNING


def test_other_verdicts_and_follow_ups_are_for_settle(store: SqliteStore) -> None:
    lent = start(store, request())
    with_follow_up = Settlement(lent.fence, Done(), then=(request(),))

    assert not finish(store, lent, Fail("boom"))
    assert not store.run(store.finish(with_follow_up))

    assert finish(store, lent)
