"""Perpetual tasks: cycles, starting by themselves, stopping for good, and coming back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.stories import errands
from tests.stories.arrange import Gate, OpenApp, events, in_state, run_all, until, working

from duly import Duly, Job, Retry, Run, State
from duly.errors import DefinitionError, DulyError, NotInRun
from duly.testing import VirtualClock
from duly.worker import chores

MINUTE = timedelta(minutes=1)


class CloudError(Exception):
    pass


def only_job(app: Duly) -> Job:
    [job] = app.jobs.list()
    return app.jobs.get(job)


def due_in(job: Job, clock: VirtualClock) -> timedelta:
    assert job.ready_at is not None
    return job.ready_at - clock.now()


# --- cycles -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_perpetual_runs_again_and_again_as_one_job(timed_app: Duly, clock: VirtualClock, kind: str) -> None:
    seen: list[tuple[int, str]] = []

    def poll(run: Run) -> None:
        seen.append((run.attempt, run.idempotency_key))

    async def poll_on_loop(run: Run) -> None:
        seen.append((run.attempt, run.idempotency_key))

    body: Any = poll if kind == "sync" else poll_on_loop
    handle = timed_app.perpetual(every="5m")(body).enqueue()
    for _ in range(3):
        run_all(timed_app)
        clock.advance("5m")

    job = only_job(timed_app)
    assert (job.id, job.state, job.generation) == (handle.id, State.WAITING, handle.generation)
    assert events(job) == ["again"] * 3
    assert [attempt for attempt, _ in seen] == [1, 1, 1]
    assert len({key for _, key in seen}) == 3


def test_the_body_says_when_the_next_cycle_is_due_and_its_last_word_counts(
    timed_app: Duly, clock: VirtualClock
) -> None:
    @timed_app.perpetual(every="5m")
    def poll(run: Run) -> None:
        run.again(after="10m")
        run.again(at=clock.now() + 3 * MINUTE)
        run.again(after="30s")

    poll.enqueue()
    run_all(timed_app)

    assert due_in(only_job(timed_app), clock) == MINUTE / 2


def test_a_word_about_the_next_cycle_counts_also_when_the_body_fails_afterwards(
    timed_app: Duly, clock: VirtualClock
) -> None:
    @timed_app.perpetual(every="5m")
    def poll(run: Run) -> None:
        run.again(after="30s")
        raise ValueError("boom")

    poll.enqueue()
    run_all(timed_app)

    job = only_job(timed_app)
    assert due_in(job, clock) == MINUTE / 2
    assert "boom" in (job.error or "")


def test_instances_by_key_keep_their_own_time(timed_app: Duly, clock: VirtualClock) -> None:
    @timed_app.perpetual(every="5m")
    def poll(run: Run, minutes: int) -> None:
        run.again(after=minutes * MINUTE)

    for minutes in (1, 2):
        poll.using(key=f"pool:{minutes}").enqueue(minutes)
    run_all(timed_app)
    clock.advance("1m")
    run_all(timed_app)

    cycles = {job.key: job.cycle for job in timed_app.jobs.list()}
    assert cycles == {"pool:1": 2, "pool:2": 1}


def test_a_request_for_one_that_waits_brings_its_next_cycle_forward(
    timed_app: Duly, clock: VirtualClock
) -> None:
    seen: list[int] = []

    @timed_app.perpetual(every="5m")
    def poll(n: int) -> None:
        seen.append(n)

    first = poll.enqueue(1)
    run_all(timed_app)
    second = poll.enqueue(2)
    run_all(timed_app)

    assert (second.id, second.decision, seen) == (first.id, "kept", [1, 2])
    assert due_in(only_job(timed_app), clock) == 5 * MINUTE


def test_a_cycle_may_be_tried_again_before_the_next_one(timed_app: Duly, clock: VirtualClock) -> None:
    seen: list[int] = []

    @timed_app.perpetual(every="5m", retry=Retry(on=CloudError, attempts=2, backoff="fixed", first="10s"))
    def poll(run: Run) -> None:
        seen.append(run.attempt)
        raise CloudError

    poll.enqueue()
    waits: list[timedelta] = []
    for _ in range(4):
        run_all(timed_app)
        waits.append(due_in(only_job(timed_app), clock))
        clock.advance(waits[-1])

    assert seen == [1, 2, 1, 2]
    assert waits == [MINUTE / 6, 5 * MINUTE] * 2


def test_a_failed_cycle_is_recorded_and_the_next_one_comes(timed_app: Duly, clock: VirtualClock) -> None:
    seen: list[int] = []

    @timed_app.perpetual(every="5m")
    def poll() -> None:
        seen.append(1)
        if len(seen) == 1:
            raise ValueError("boom")

    poll.enqueue()
    run_all(timed_app)
    failed = only_job(timed_app)
    clock.advance("5m")
    run_all(timed_app)

    assert (failed.state, due_in(failed, clock)) == (State.WAITING, timedelta(0))
    assert "boom" in (failed.error or "")
    assert len(seen) == 2


def test_a_child_that_dies_does_not_end_the_chain(errand_app: Duly) -> None:
    with working(errand_app):
        handle = errands.poll_and_die_once.enqueue()
        until(lambda: errand_app.jobs.get(handle).cycle)
        job = errand_app.jobs.get(handle)

    assert (job.state, events(job)) == (State.WAITING, ["crash", "again"])


# --- stopping -----------------------------------------------------------------------------------


class Polling:
    """A perpetual that starts by itself, and does in each cycle what the test says."""

    def __init__(self, app: Duly, *, on_failure: Any = None) -> None:
        self.app = app
        self.cycles = 0
        self.order = "go on"

        @app.perpetual(every="5m", automatic=True, on_failure=on_failure)
        def poll(run: Run) -> None:
            self.cycles += 1
            if self.order == "stop":
                run.stop()
            if self.order == "fail":
                raise ValueError("boom")

        self.task = poll


def test_an_automatic_perpetual_starts_with_the_first_worker_and_only_once(open_app: OpenApp) -> None:
    app = open_app()
    polling = Polling(app)

    with working(app), working(app):
        until(lambda: polling.cycles == 1)

    assert app.jobs.count(task=polling.task) == 1


def test_a_perpetual_that_is_not_automatic_waits_to_be_asked(app: Duly) -> None:
    app.perpetual(every="5m")(lambda: None)

    run_all(app)

    assert app.jobs.count() == 0


def test_stop_ends_it_for_good_over_restarts(timed_app: Duly, clock: VirtualClock) -> None:
    polling = Polling(timed_app)
    polling.order = "stop"
    run_all(timed_app)

    clock.advance("1d")
    for _ in range(2):
        run_all(timed_app)

    assert polling.cycles == 1
    assert only_job(timed_app).state is State.DONE


def test_the_marker_of_a_stopped_one_outlives_its_record(timed_app: Duly, clock: VirtualClock) -> None:
    polling = Polling(timed_app)
    polling.order = "stop"
    run_all(timed_app)

    clock.advance("400d")
    timed_app.store.run(timed_app.store.prune(100))
    run_all(timed_app)

    assert (polling.cycles, timed_app.jobs.count()) == (1, 0)


@pytest.mark.parametrize("how", ["stopped", "cancelled while it waits", "cancelled while it runs"])
def test_one_that_was_ended_starts_again_when_somebody_asks(open_app: OpenApp, how: str) -> None:
    app = open_app(lease="10s")
    polling = Polling(app)
    polling.order = "stop" if how == "stopped" else "go on"
    gate = Gate()

    @app.perpetual(every="5m", automatic=True, name="held")
    def held() -> None:
        if how == "cancelled while it runs":
            gate.wait_here()

    with working(app):
        [job] = until(lambda: app.jobs.list(task="held"))
        if how == "cancelled while it runs":
            gate.reached()
            app.jobs.cancel(job)
            gate.open()
        elif how == "cancelled while it waits":
            until(lambda: app.jobs.get(job).cycle)
            app.jobs.cancel(job)
        else:
            until(lambda: polling.cycles)
    task: Any = polling.task if how == "stopped" else held
    run_all(app)
    ended = app.jobs.count(task=task, state=["waiting", "running"])
    polling.order = "go on"
    handle = task.enqueue()
    run_all(app)

    assert ended == 0
    assert app.jobs.get(handle).cycle == 1


def test_a_failed_cycle_stops_it_when_asked_to(timed_app: Duly) -> None:
    polling = Polling(timed_app, on_failure="stop")
    polling.order = "fail"

    run_all(timed_app)
    run_all(timed_app)

    job = only_job(timed_app)
    assert (polling.cycles, job.state) == (1, State.DONE)
    assert "boom" in (job.error or "")


def test_stop_counts_also_when_the_body_fails_afterwards(timed_app: Duly) -> None:
    @timed_app.perpetual(every="5m")
    def poll(run: Run) -> None:
        run.stop()
        raise ValueError("boom")

    poll.enqueue()
    run_all(timed_app)

    assert only_job(timed_app).state is State.DONE


def test_again_after_stop_goes_on(timed_app: Duly, clock: VirtualClock) -> None:
    @timed_app.perpetual(every="5m")
    def poll(run: Run) -> None:
        run.stop()
        run.again(after="1m")

    poll.enqueue()
    run_all(timed_app)

    assert due_in(only_job(timed_app), clock) == MINUTE


# --- coming back --------------------------------------------------------------------------------


def test_an_automatic_one_is_seeded_again_when_its_job_vanished(
    app: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chores, "SEED_EVERY", 0.1)
    polling = Polling(app)

    with working(app):
        until(lambda: polling.cycles == 1)
        lost = only_job(app)
        in_state(app, lost, "waiting")
        app.jobs.delete(lost)
        until(lambda: polling.cycles == 2)

    assert only_job(app).id != lost.id


def test_one_that_was_stopped_is_not_seeded_again(app: Duly, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chores, "SEED_EVERY", 0.02)
    polling, other = Polling(app), app.task(lambda: None)
    polling.order = "stop"

    with working(app):
        until(lambda: polling.cycles == 1)
        for _ in range(20):
            other.using(run_after="10ms").enqueue()
            until(lambda: app.jobs.count(task=other, state="waiting") == 0)

    assert (polling.cycles, app.jobs.count(task=polling.task)) == (1, 1)


# --- what makes no sense ------------------------------------------------------------------------


def test_again_and_stop_are_refused_in_a_task_that_is_not_perpetual(app: Duly) -> None:
    caught: list[str] = []

    @app.task
    def once(run: Run) -> None:
        with pytest.raises(NotInRun, match="perpetual"):
            run.again(after="1m")
        with pytest.raises(NotInRun, match="perpetual"):
            run.stop()
        caught.append(run.id)

    handle = once.enqueue()
    run_all(app)

    assert (handle.state(), len(caught)) == (State.DONE, 1)


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"after": "1m", "at": datetime(2027, 1, 1, tzinfo=UTC)},
        {"after": -1},
        {"after": "soon"},
        {"at": datetime(2027, 1, 1)},  # noqa: DTZ001
        {"at": datetime.max.replace(tzinfo=UTC)},
    ],
    ids=["nothing", "two times", "negative", "words", "naive", "the end of time"],
)
def test_a_next_cycle_that_cannot_be_is_an_error_in_the_body(timed_app: Duly, words: dict[str, Any]) -> None:
    @timed_app.perpetual(every="5m")
    def poll(run: Run) -> None:
        with pytest.raises(DulyError):
            run.again(**words)

    poll.enqueue()
    run_all(timed_app)

    assert only_job(timed_app).error is None


def test_the_step_of_a_perpetual_must_be_longer_than_nothing(app: Duly) -> None:
    with pytest.raises(DefinitionError, match="longer than zero"):
        app.perpetual(every=0)(lambda: None)
