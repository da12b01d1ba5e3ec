"""`app.jobs`: looking at jobs and acting on them, one, many and very many."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.stories.arrange import Gate, OpenApp, ended, events, run_all, until, working

from duly import Duly, Run, State
from duly.errors import ResultTimeout, UnknownJob
from duly.testing import VirtualClock


class Mixed:
    """Jobs of two tasks on two queues: some done, some failed, some waiting."""

    def __init__(self, app: Duly) -> None:
        @app.task(name="good", queue_name="mail")
        def good(n: int) -> None:
            pass

        @app.task(name="bad")
        def bad(n: int) -> None:
            raise ValueError(f"number {n} is Broken")

        self.good, self.bad = good, bad
        self.done = good.enqueue_many([((n,), {}) for n in range(3)])
        self.failed = bad.enqueue_many([((n,), {}) for n in range(2)])
        run_all(app)
        self.waiting = [good.using(run_after="1h", key=f"k:{n}").enqueue(n) for n in range(4)]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, 9),
        ({"task": "good"}, 7),
        ({"task": ["good", "bad"]}, 9),
        ({"queue": "mail"}, 7),
        ({"state": "waiting"}, 4),
        ({"state": [State.DONE, "failed"]}, 5),
        ({"key": "k:2"}, 1),
        ({"error": "is broken"}, 2),
        ({"error": "number 1"}, 1),
        ({"task": "good", "state": "failed"}, 0),
    ],
    ids=str,
)
def test_jobs_are_found_by_what_they_have_in_common(app: Duly, filters: Any, expected: int) -> None:
    Mixed(app)

    assert len(app.jobs.list(**filters)) == expected
    assert app.jobs.count(**filters) == expected


def test_jobs_are_listed_newest_first_and_page_by_page(app: Duly) -> None:
    mixed = Mixed(app)

    first = app.jobs.list(limit=5)
    rest = app.jobs.list(limit=5, before=first[-1].generation)

    asked = [*mixed.done, *mixed.failed, *mixed.waiting]
    assert [job.id for job in [*first, *rest]] == [handle.id for handle in reversed(asked)]


def test_an_unknown_job_is_named(app: Duly) -> None:
    with pytest.raises(UnknownJob, match="nobody"):
        app.jobs.get("nobody")
    with pytest.raises(UnknownJob, match="nobody"):
        app.jobs.wait_all(["nobody"], timeout=1)


def test_waiting_for_all_ends_with_the_first_that_takes_too_long(app: Duly) -> None:
    mixed = Mixed(app)

    with pytest.raises(ResultTimeout):
        app.jobs.wait_all([*mixed.done, *mixed.waiting], timeout="20ms")


def test_failed_jobs_are_retried_together(app: Duly) -> None:
    mixed = Mixed(app)

    acted = app.jobs.retry(task="bad", state="failed", by="ada")

    assert sorted(acted.changed) == sorted(handle.id for handle in mixed.failed)
    revived = app.jobs.get(mixed.failed[0])
    assert (revived.state, revived.error, revived.attempt) == (State.WAITING, None, 0)
    assert (revived.history[-1].event, revived.history[-1].note) == ("revive", "ada")


def test_an_order_says_what_it_could_not_do_and_why(app: Duly) -> None:
    mixed = Mixed(app)

    acted = app.jobs.cancel(mixed.done[0], mixed.waiting[0])

    assert acted.changed == [mixed.waiting[0].id]
    assert acted.refused == {mixed.done[0].id: "already done"}
    assert bool(acted)


@pytest.mark.parametrize("named", [True, False], ids=["by id", "by filter"])
def test_an_order_reaches_every_job_however_many_there_are(app: Duly, named: bool) -> None:
    task = app.task(name="many")(lambda: None)
    handles = task.using(run_after="1h").enqueue_many([((), {}) for _ in range(2300)])

    acted = app.jobs.cancel(*handles) if named else app.jobs.cancel(task="many")

    assert (len(acted.changed), acted.refused) == (2300, {})
    assert app.jobs.count(state="cancelled") == 2300


def test_an_order_for_others_spares_the_schedules(timed_app: Duly, clock: VirtualClock) -> None:
    seen: list[int] = []

    @timed_app.schedule(every="10m")
    @timed_app.task
    def tick() -> None:
        seen.append(1)

    run_all(timed_app)
    tick.using(run_after="1h").enqueue()
    acted = timed_app.jobs.cancel(state=["waiting", "running"])
    clock.advance("10m")
    run_all(timed_app)

    assert (len(acted.changed), seen) == (1, [1])


def test_a_job_is_postponed_and_brought_forward(timed_app: Duly, clock: VirtualClock) -> None:
    seen: list[str] = []

    @timed_app.task
    def note(word: str) -> None:
        seen.append(word)

    late, early = note.enqueue("late"), note.using(run_after="1h").enqueue("early")
    timed_app.jobs.postpone(late, at=clock.now() + timedelta(minutes=5))
    timed_app.jobs.postpone(early)
    run_all(timed_app)
    before = list(seen)
    clock.advance("5m")
    run_all(timed_app)

    assert (before, seen) == (["early"], ["early", "late"])


def test_a_deleted_job_is_gone_and_a_running_one_stops_first(open_app: OpenApp) -> None:
    app = open_app(lease="10s")
    gate = Gate()
    runs: list[Run] = []

    @app.task
    def work(run: Run) -> None:
        runs.append(run)
        gate.wait_here()

    with working(app):
        running, waiting = work.enqueue(), work.using(run_after="1h").enqueue()
        gate.reached()
        app.jobs.delete(running, waiting)
        until(lambda: runs[0].cancelled)
        still = running.state()
        gate.open()
        until(lambda: app.jobs.count() == 0)

    assert still is State.RUNNING


def test_finished_jobs_are_forgotten_when_their_time_is_over(timed_app: Duly, clock: VirtualClock) -> None:
    @timed_app.task(keep_for={"done": "1h", "failed": "2h"})
    def work(*, fails: bool) -> None:
        if fails:
            raise ValueError

    work.enqueue(fails=False)
    work.enqueue(fails=True)
    run_all(timed_app)
    left: list[int] = []
    for _ in range(2):
        clock.advance("1h")
        timed_app.store.run(timed_app.store.prune(100))
        left.append(timed_app.jobs.count())

    assert left == [1, 0]


async def test_the_async_twins_do_the_same(app: Duly) -> None:
    task = app.task(name="work")(lambda: None)
    handles = await task.using(run_after="1h").aenqueue_many([((), {}) for _ in range(3)])

    found = await app.jobs.alist(task="work")
    await app.jobs.apostpone(handles[0])
    cancelled = await app.jobs.acancel(handles[1])
    deleted = await app.jobs.adelete(handles[2])
    async with app.worker():
        [job] = await app.jobs.await_all([handles[0]], timeout="30s")
    retried = await app.jobs.aretry(handles[1])

    assert len(found) == 3
    assert [order.changed for order in (cancelled, deleted, retried)] == [
        [handles[1].id],
        [handles[2].id],
        [handles[1].id],
    ]
    assert job.state is State.DONE
    assert (await app.jobs.acount(), (await app.jobs.aget(handles[1])).state) == (2, State.WAITING)


def test_a_job_tells_its_whole_story(app: Duly) -> None:
    @app.task
    def work() -> None:
        pass

    handle = work.using(run_after="1h").enqueue()
    app.jobs.postpone(handle, by="ada")
    with working(app) as worker:
        job = ended(app, handle)

    assert events(job) == ["postpone", "done"]
    assert (job.history[0].note, job.history[1].worker) == ("ada", worker.id)
