"""find, count, census, explain: reading, never changing."""

from __future__ import annotations

import pytest
from tests.contract.arrange import (
    HOUR,
    KEY,
    LEASE,
    MINUTE,
    SECOND,
    TASK,
    beat,
    claim_all,
    claim_one,
    find,
    look,
    put,
    put_one,
    request,
    settle,
    start,
)

from duly.job import State
from duly.lifecycle import Done, Fail
from duly.stores.contract import Page, Scope, Selection, Standing, Store, Switch
from duly.stores.redis import RedisStore
from duly.testing import VirtualClock


def found(store: Store, selection: Selection) -> set[str]:
    return {job.id for job in find(store, selection)}


@pytest.fixture
def mixed(store: Store) -> Store:
    """One job of each sort."""
    put(
        store,
        request("k1", id="waiting", task="a", queue="io"),
        request("k2", id="other", task="b", queue="cpu"),
        request("k1", id="same key", task="b", queue="io"),
    )
    settle(store, start(store, request(id="failed", queue="io")), Fail("Timeout: 100% of_it"))
    settle(store, start(store, request(id="done", queue="cpu")), Done())
    return store


CASES = {
    "all": (Selection(), {"waiting", "other", "same key", "failed", "done"}),
    "ids": (Selection(ids=("done", "other", "nobody")), {"done", "other"}),
    "tasks": (Selection(tasks=("a", TASK)), {"waiting", "failed", "done"}),
    "one state": (Selection(states=(State.WAITING,)), {"waiting", "other", "same key"}),
    "two states": (Selection(states=(State.DONE, State.FAILED)), {"failed", "done"}),
    "queue": (Selection(queues=("cpu",)), {"other", "done"}),
    "key": (Selection(key="k1"), {"waiting", "same key"}),
    "key and task": (Selection(key="k1", tasks=("b",)), {"same key"}),
    "error in any case": (Selection(error="TIMEOUT"), {"failed"}),
    "error with a percent sign": (Selection(error="100%"), {"failed"}),
    "error with an underscore": (Selection(error="0% of_"), {"failed"}),
    "a percent sign is no wildcard": (Selection(error="1%f"), set[str]()),
    "an underscore is no wildcard": (Selection(error="of i_"), set[str]()),
    "nothing matches both": (Selection(tasks=("a",), states=(State.DONE,)), set[str]()),
}


@pytest.mark.parametrize(("selection", "expected"), CASES.values(), ids=CASES)
def test_every_given_field_must_match(mixed: Store, selection: Selection, expected: set[str]) -> None:
    assert found(mixed, selection) == expected
    assert mixed.run(mixed.count(selection)) == len(expected)


def test_the_newest_request_comes_first(store: Store) -> None:
    placed = put(store, *(request() for _ in range(5)))

    assert [job.id for job in find(store)] == [one.id for one in reversed(placed)]


def test_pages_follow_each_other_without_gap_or_repetition(store: Store) -> None:
    placed = put(store, *(request() for _ in range(7)))
    seen: list[str] = []
    before: int | None = None
    while page := store.run(store.find(Selection(), Page(limit=3, before=before))):
        assert len(page) <= 3
        seen += [job.id for job in page]
        before = page[-1].generation
        put_one(store, request())  # newcomers do not shift the pages behind

    assert seen == [one.id for one in reversed(placed)]


def test_history_comes_only_when_asked_for(store: Store) -> None:
    lent = start(store, request())
    settle(store, lent)

    [plain] = store.run(store.find(Selection(), Page()))

    assert plain.history == ()
    assert [line.event for line in look(store, lent.id).history] == ["done"]


def test_reading_changes_nothing(store: Store, clock: VirtualClock) -> None:
    lent = start(store, request(KEY))
    put_one(store, request(KEY, expires_after=SECOND))
    clock.advance(LEASE)
    before = find(store)

    store.run(store.count(Selection()))
    store.run(store.census())
    store.run(store.explain(lent.id))

    assert find(store) == before


@pytest.mark.parametrize(
    "text",
    [
        "",
        "quote ' \" ;--",
        "line\nbreak\ttab",
        "nul \x00 inside",
        "Grüße 漢字 🎉",
        "back\\slash %s {}",
    ],
    ids=repr,
)
def test_text_comes_back_as_it_was_given(store: Store, text: str) -> None:
    placed = put_one(store, request(f"key {text}", arguments=text, context=text, queue=f"q {text}"))

    lent = claim_one(store)
    settle(store, lent, Fail(f"error {text}", reason=f"reason {text}"))

    job = look(store, placed.id)
    assert (lent.arguments, lent.context, lent.key, lent.queue) == (text, text, f"key {text}", f"q {text}")
    assert (job.arguments, job.error, job.reason) == (text, f"error {text}", f"reason {text}")


# --- census --------------------------------------------------------------------------------------


def test_the_census_counts_jobs_by_task_queue_and_state(mixed: Store) -> None:
    census = mixed.run(mixed.census())

    assert census.jobs == {
        ("a", "io", State.WAITING): 1,
        ("b", "cpu", State.WAITING): 1,
        ("b", "io", State.WAITING): 1,
        (TASK, "io", State.FAILED): 1,
        (TASK, "cpu", State.DONE): 1,
    }
    assert (census.suppressed, census.refused, census.superseded) == (0, 0, 0)


def test_the_census_can_leave_out_what_is_finished(mixed: Store) -> None:
    census = mixed.run(mixed.census(with_finished=False))

    assert census.jobs == {
        ("a", "io", State.WAITING): 1,
        ("b", "cpu", State.WAITING): 1,
        ("b", "io", State.WAITING): 1,
    }


def test_a_census_counts_no_more_finished_jobs_than_it_may(mixed: Store) -> None:
    few = mixed.run(mixed.census(most=2))
    many = mixed.run(mixed.census(most=1))

    assert few == mixed.run(mixed.census())
    if isinstance(mixed, RedisStore):  # its counts are kept, and cost nothing
        assert many == few
    else:
        assert many == mixed.run(mixed.census(with_finished=False))
        assert not many.has_finished


def test_the_census_says_since_when_the_oldest_ready_job_of_a_queue_waits(
    store: Store, clock: VirtualClock
) -> None:
    oldest = clock.now()
    put(store, request(), request(queue="later", delay=HOUR), request(queue="soon", delay=SECOND))
    clock.advance(MINUTE)
    put_one(store, request())

    assert store.run(store.census()).oldest_due == {"default": oldest, "soon": oldest + SECOND}


def test_a_parked_job_is_not_the_oldest_ready_one(store: Store) -> None:
    start(store, request(KEY))
    put_one(store, request(KEY))

    assert store.run(store.census()).oldest_due == {}


# --- explain -------------------------------------------------------------------------------------


def failing(store: Store, job_id: str) -> dict[str, str]:
    """The conditions that keep a job from being lent, with their explanations."""
    standing = store.run(store.explain(job_id))
    assert standing is not None
    return {name: explanation for name, holds, explanation in standing.conditions if not holds}


def test_expiry_is_told_only_of_jobs_that_have_one(store: Store) -> None:
    forever = put_one(store, request()).id
    fleeting = put_one(store, request(expires_after=HOUR)).id

    words = [
        explanation
        for job_id in (forever, fleeting)
        for name, _, explanation in explained(store, job_id).conditions
        if name == "not expired"
    ]

    assert words[0] == "it never expires"
    assert words[1].startswith("expires at 2")


def explained(store: Store, job_id: str) -> Standing:
    standing = store.run(store.explain(job_id))
    assert standing is not None
    return standing


def test_nobody_explains_a_job_that_is_not_there(store: Store) -> None:
    assert store.run(store.explain("nobody")) is None


def test_a_job_that_can_run_now_fulfils_every_condition(store: Store) -> None:
    beat(store)
    placed = put_one(store, request())

    assert failing(store, placed.id) == {}


def test_explain_names_the_worker_that_is_missing(store: Store) -> None:
    placed = put_one(store, request(task="exotic"))
    without_worker = failing(store, placed.id)
    beat(store)

    assert set(without_worker) == set(failing(store, placed.id)) == {"known to a live worker"}
    assert "'exotic'" in failing(store, placed.id)["known to a live worker"]


def test_explain_names_the_time_it_waits_for(store: Store, clock: VirtualClock) -> None:
    beat(store)
    placed = put_one(store, request(delay=HOUR))

    assert (clock.now() + HOUR).isoformat() in failing(store, placed.id)["due"]


def test_explain_names_the_run_that_holds_the_key(store: Store) -> None:
    beat(store)
    older = start(store, request(KEY))
    placed = put_one(store, request(KEY))

    assert older.id in failing(store, placed.id)["first of its key"]


def test_explain_names_the_switch_that_holds_the_lane(store: Store) -> None:
    beat(store)
    placed = put_one(store, request(queue="io"))
    store.run(store.hold(Switch(Scope.QUEUE, "io", None, "migration")))
    store.run(store.hold(Switch(Scope.TASK, TASK, None)))

    assert set(failing(store, placed.id)) == {"task not held", "queue not held"}
    assert "migration" in failing(store, placed.id)["queue not held"]


def test_explain_shows_the_job_with_its_history(store: Store) -> None:
    lent = start(store, request())
    settle(store, lent)
    standing = store.run(store.explain(lent.id))

    assert standing is not None
    assert standing.job == look(store, lent.id)
    assert "waiting" in failing(store, lent.id)
    assert claim_all(store) == []
