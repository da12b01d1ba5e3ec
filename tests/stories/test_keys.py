"""Requests for one key: overlap policies, replace, cancel, and what a run asks for its own key."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from tests.stories.arrange import Gate, OpenApp, ended, in_state, run_all, until, working

from duly import Decision, Duly, Handle, Retry, Run, State, Task
from duly.testing import VirtualClock

KEY = "lease:42"

Search = Task[[str], None, None]


class Searching:
    """A task whose runs the test can watch and hold: each waits at the gate of its word, if it has one."""

    def __init__(self, app: Duly, overlap: Any = "queue_one", **options: Any) -> None:
        self.started: list[str] = []
        self.finished: list[str] = []
        self.gates: dict[str, Gate] = {}
        self.runs: dict[str, Run] = {}

        @app.task(overlap=overlap, **options)
        def search(run: Run, word: str) -> None:
            self.runs[word] = run
            self.started.append(word)
            if word in self.gates:
                self.gates[word].wait_here()
            self.finished.append(word)

        self.task: Search = search

    def ask(self, word: str, **wishes: Any) -> Handle[None]:
        return self.task.using(key=KEY, **wishes).enqueue(word)

    def hold(self, word: str) -> Gate:
        """A run with this word will wait."""
        self.gates[word] = Gate()
        return self.gates[word]


# --- while one waits ----------------------------------------------------------------------------


def test_requests_for_a_key_that_waits_become_one_job_with_the_latest_arguments(app: Duly) -> None:
    search = Searching(app)

    first, second = search.ask("old"), search.ask("new")
    run_all(app)

    assert (first.decision, second.decision) == (Decision.CREATED, Decision.KEPT)
    assert first.id == second.id
    assert search.finished == ["new"]


def test_the_earliest_time_of_two_requests_counts(timed_app: Duly, clock: VirtualClock) -> None:
    search = Searching(timed_app)
    search.ask("late", run_after="1h")
    search.ask("early", run_after="10m")
    search.ask("later", run_after="2h")

    clock.advance("10m")
    run_all(timed_app)

    assert search.finished == ["later"]


def test_equal_keys_of_two_tasks_do_not_touch_each_other(app: Duly) -> None:
    one, other = Searching(app, name="one"), Searching(app, name="other")

    assert one.ask("a").id != other.ask("b").id
    run_all(app)

    assert (one.finished, other.finished) == (["a"], ["b"])


def test_work_without_a_key_knows_no_overlap(app: Duly) -> None:
    gate = Gate()

    @app.task
    def wait() -> None:
        gate.wait_here()

    with working(app):
        for _ in range(3):
            wait.enqueue()
        for _ in range(3):
            gate.reached()
        gate.open()


# --- while one runs -----------------------------------------------------------------------------


def test_queue_one_keeps_one_request_behind_the_run_with_the_latest_arguments(app: Duly) -> None:
    search = Searching(app, "queue_one")
    gate = search.hold("a")

    with working(app):
        a = search.ask("a")
        gate.reached()
        b, c = search.ask("b"), search.ask("c")
        while_running = app.jobs.get(b).is_parked
        gate.open()
        ended(app, c)

    assert (b.decision, c.decision, b.id == c.id) == (Decision.QUEUED, Decision.KEPT, True)
    assert while_running
    assert (a.state(), c.state()) == (State.DONE, State.DONE)
    assert search.finished == ["a", "c"]


def test_skip_drops_a_request_while_one_runs(app: Duly) -> None:
    search = Searching(app, "skip")
    gate = search.hold("a")

    with working(app):
        a = search.ask("a")
        gate.reached()
        b = search.ask("b")
        gate.open()
        ended(app, a)

    assert (b.decision, b.id) == (Decision.SKIPPED, a.id)
    assert search.finished == ["a"]
    assert app.store.run(app.store.census()).suppressed == 1


def test_allow_starts_the_newer_at_once_and_the_older_changes_nothing(app: Duly) -> None:
    search = Searching(app, "allow")
    gate = search.hold("a")

    with working(app):
        a = search.ask("a")
        gate.reached()
        b = search.ask("b")
        ended(app, b)
        gate.open()
        older = ended(app, a)

    assert search.finished == ["b", "a"]
    assert (older.state, older.reason) == (State.CANCELLED, f"superseded by {b.id}")


def test_cancel_previous_stops_the_older_and_starts_the_newer_only_then(open_app: OpenApp) -> None:
    app = open_app(lease="10s")
    running = 0
    most = 0

    @app.task(overlap="cancel_previous")
    async def watch(word: str) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            await asyncio.sleep(100 if word == "a" else 0)
        finally:
            await asyncio.sleep(0.05)
            running -= 1

    with working(app):
        a = watch.using(key=KEY).enqueue("a")
        in_state(app, a, "running")
        b = watch.using(key=KEY).enqueue("b")
        newer, older = ended(app, b), ended(app, a)

    assert b.decision is Decision.REPLACED
    assert (older.state, newer.state, most) == (State.CANCELLED, State.DONE, 1)


def test_a_retry_with_a_request_queued_behind_it_is_absorbed_with_a_fresh_budget(app: Duly) -> None:
    gate = Gate()
    seen: list[tuple[str, int]] = []

    @app.task(retry=Retry(on=OSError, attempts=3, backoff="fixed", first="1h"))
    def fetch(run: Run, word: str) -> None:
        seen.append((word, run.attempt))
        if word == "old":
            gate.wait_here()
            raise OSError

    with working(app):
        old = fetch.using(key=KEY).enqueue("old")
        gate.reached()
        new = fetch.using(key=KEY).enqueue("new")
        gate.open()
        ended(app, new)

    assert seen == [("old", 1), ("new", 1)]
    assert app.jobs.get(old).reason == f"absorbed by {new.id}"


# --- replace ------------------------------------------------------------------------------------


def test_replace_supersedes_what_waits(app: Duly) -> None:
    search = Searching(app)

    old = search.ask("old", run_after="1h")
    new = search.ask("new", replace=True)
    run_all(app)

    assert (new.decision, new.id != old.id) == (Decision.REPLACED, True)
    assert (old.state(), app.jobs.get(old).reason) == (State.CANCELLED, f"superseded by {new.id}")
    assert search.finished == ["new"]


@pytest.mark.parametrize("overlap", ["queue_one", "allow"])
def test_replace_supersedes_what_runs(app: Duly, overlap: Literal["queue_one", "allow"]) -> None:
    search = Searching(app, overlap)
    gate = search.hold("old")

    with working(app):
        old = search.ask("old")
        gate.reached()
        new = search.ask("new", replace=True)
        if overlap == "allow":
            ended(app, new)
        gate.open()
        older, newer = ended(app, old), ended(app, new)

    assert (older.state, older.reason) == (State.CANCELLED, f"superseded by {new.id}")
    assert newer.state is State.DONE
    assert search.finished == (["new", "old"] if overlap == "allow" else ["old", "new"])


def test_a_superseded_run_learns_of_it(open_app: OpenApp) -> None:
    app = open_app(lease="10s")
    search = Searching(app)
    gate = search.hold("old")

    with working(app):
        search.ask("old")
        gate.reached()
        assert not search.runs["old"].superseded
        search.ask("new", replace=True)
        until(lambda: search.runs["old"].superseded)
        gate.open()


# --- cancel -------------------------------------------------------------------------------------


def test_a_cancelled_job_that_waits_never_runs(app: Duly) -> None:
    search = Searching(app)
    handle = search.ask("a")

    assert handle.cancel()
    run_all(app)

    assert (handle.state(), search.started) == (State.CANCELLED, [])
    assert not handle.cancel()


def test_a_cancelled_run_keeps_its_key_until_it_ends_and_is_cancelled_whatever_it_returned(
    open_app: OpenApp,
) -> None:
    app = open_app(lease="10s")
    search = Searching(app)
    gate = search.hold("a")

    with working(app):
        a = search.ask("a")
        gate.reached()
        a.cancel()
        b = search.ask("b")
        until(lambda: search.runs["a"].cancelled)
        meanwhile = (a.state(), b.state(), list(search.started))
        gate.open()
        older, newer = ended(app, a), ended(app, b)

    assert meanwhile == (State.RUNNING, State.WAITING, ["a"])
    assert (older.state, newer.state) == (State.CANCELLED, State.DONE)
    assert search.finished == ["a", "b"]


def test_a_cancelled_run_on_the_loop_is_stopped(open_app: OpenApp) -> None:
    app = open_app(lease="10s")

    @app.task
    async def sleep() -> None:
        await asyncio.sleep(60)

    with working(app):
        handle = sleep.enqueue()
        in_state(app, handle, "running")
        handle.cancel()
        job = ended(app, handle)

    assert job.state is State.CANCELLED


def test_an_operators_retry_is_refused_where_a_newer_request_exists(app: Duly) -> None:
    @app.task
    def fail(word: str) -> None:
        raise ValueError(word)

    old = fail.using(key=KEY).enqueue("old")
    run_all(app)
    new = fail.using(key=KEY).enqueue("new")

    refused = app.jobs.retry(old).refused
    app.jobs.cancel(new)

    assert refused == {old.id: f"a newer request exists: {new.id}"}


def test_an_operators_retry_is_a_new_generation_with_fresh_budgets(app: Duly) -> None:
    seen: list[tuple[int, str]] = []

    @app.task
    def fail(run: Run) -> None:
        seen.append((run.attempt, run.idempotency_key))
        if len(seen) == 1:
            raise ValueError

    handle = fail.using(key=KEY).enqueue()
    run_all(app)
    assert app.jobs.retry(handle).changed == [handle.id]
    run_all(app)

    job = app.jobs.get(handle)
    assert job.state is State.DONE
    assert job.generation > handle.generation
    assert [attempt for attempt, _ in seen] == [1, 1]
    assert seen[0][1] != seen[1][1]


# --- from inside a run --------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
@pytest.mark.parametrize("replace", [False, True], ids=["add", "replace"])
def test_a_request_for_its_own_key_is_part_of_the_runs_end(app: Duly, replace: bool, fails: bool) -> None:
    handles: list[Handle[None]] = []

    @app.task
    def chain(n: int) -> None:
        if n < 3:
            handles.append(chain.using(key=KEY, replace=replace).enqueue(n + 1))
            assert app.jobs.count() == 1 + n
        if fails:
            raise ValueError(n)

    first = chain.using(key=KEY).enqueue(0)
    run_all(app)

    jobs = app.jobs.wait_all([first, *handles], timeout=1)
    assert [handle.decision for handle in handles] == [Decision.PENDING] * 3
    assert [job.state for job in jobs] == [State.FAILED if fails else State.DONE] * 4


def test_a_request_for_its_own_key_among_many_never_supersedes_the_run(app: Duly) -> None:
    seen: list[str] = []

    @app.task(overlap="cancel_previous")
    def spread(word: str) -> None:
        seen.append(word)
        if word == "first":
            spread.using(key=KEY, replace=True).enqueue_many([(("second",), {}), (("third",), {})])

    first = spread.using(key=KEY).enqueue("first")
    run_all(app)

    assert app.jobs.get(first).state is State.DONE
    assert seen == ["first", "third"]


async def test_what_a_body_leaves_running_may_still_ask_for_its_key(app: Duly) -> None:
    left: list[asyncio.Task[None]] = []
    is_over = asyncio.Event()

    @app.task(keep_result="1h")
    async def start(word: str) -> str:
        async def later() -> None:
            await is_over.wait()
            await start.using(key=KEY).aenqueue("later")

        if word == "now":
            left.append(asyncio.create_task(later()))
        return word

    async with app.worker():
        assert await (await start.using(key=KEY).aenqueue("now")).aresult(timeout="60s") == "now"
        is_over.set()
        await left[0]
        [newest, *_] = await app.jobs.alist(key=KEY, limit=1)
        assert await app.get_result(newest.id).aresult(timeout="60s") == "later"
