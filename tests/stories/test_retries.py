"""Trying again: which failures, how often, when; and what happens when nothing is left to try."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from tests.stories.arrange import Gate, ended, events, run_all, until, working

from duly import Duly, Job, Retry, RetryAfter, Run, State
from duly.testing import VirtualClock
from duly.worker.failures import Failure

SECOND = timedelta(seconds=1)


class CloudError(Exception):
    """A fault that goes away by itself."""


class BrokenPipe(CloudError):
    pass


class Failing:
    """A task that raises what the test says, run after run."""

    def __init__(self, app: Duly, retry: Retry | None, *errors: BaseException, **options: Any) -> None:
        self.attempts: list[int] = []
        self.keys: set[str] = set()
        self._app = app
        left = list(errors)

        @app.task(retry=retry, **options)
        def fail(run: Run) -> None:
            self.attempts.append(run.attempt)
            self.keys.add(run.idempotency_key)
            if left:
                raise left.pop(0)

        self.task = fail
        self.handle = fail.enqueue()

    def job(self) -> Job:
        return self._app.jobs.get(self.handle)

    def waits(self, clock: VirtualClock) -> list[float]:
        """Run it to its end, and tell the waits between the runs in seconds."""
        waits: list[float] = []
        while True:
            run_all(self._app)
            job = self.job()
            if job.state is not State.WAITING:
                return waits
            assert job.ready_at is not None
            waits.append((job.ready_at - clock.now()) / SECOND)
            clock.advance(job.ready_at - clock.now())


# --- how long to wait ---------------------------------------------------------------------------

BACKOFFS: dict[str, tuple[Retry, list[float]]] = {
    "fixed": (Retry(on=CloudError, attempts=4, backoff="fixed", first="5s"), [5, 5, 5]),
    "linear": (
        Retry(on=CloudError, attempts=5, backoff="linear", first="5s", cap="14s", jitter=0),
        [5, 10, 14, 14],
    ),
    "exponential": (
        Retry(on=CloudError, attempts=6, first="1s", factor=3, cap="20s", jitter=0),
        [1, 3, 9, 20, 20],
    ),
    "series": (
        Retry(on=CloudError, attempts=5, backoff="series", series=["1s", "1m", "10s"]),
        [1, 60, 10, 10],
    ),
    "cron": (Retry(on=CloudError, attempts=3, backoff="cron", cron="30 * * * *"), [1800, 3600]),
}


@pytest.mark.parametrize("backoff", BACKOFFS)
def test_the_waits_follow_the_policy(timed_app: Duly, clock: VirtualClock, backoff: str) -> None:
    policy, expected = BACKOFFS[backoff]
    failing = Failing(timed_app, policy, *[CloudError()] * 9)

    assert failing.waits(clock) == expected
    assert failing.job().state is State.FAILED


def test_jitter_shortens_a_wait_by_at_most_its_share(timed_app: Duly, clock: VirtualClock) -> None:
    policy = Retry(on=CloudError, attempts=9, backoff="fixed", first="100s", jitter=0.5)

    waits = Failing(timed_app, policy, *[CloudError()] * 9).waits(clock)

    assert all(50 <= wait <= 100 for wait in waits)
    assert len(set(waits)) > 1


def test_no_try_comes_later_than_within_allows(timed_app: Duly, clock: VirtualClock) -> None:
    policy = Retry(on=CloudError, attempts=None, backoff="fixed", first="20s", within="50s")

    waits = Failing(timed_app, policy, *[CloudError()] * 9).waits(clock)

    assert waits == [20, 20]


# --- how often, and on what ---------------------------------------------------------------------


def test_attempts_counts_all_runs_and_the_last_error_stays(timed_app: Duly, clock: VirtualClock) -> None:
    policy = Retry(on=CloudError, attempts=3, backoff="fixed", first="1s")
    failing = Failing(timed_app, policy, CloudError("one"), CloudError("two"), CloudError("three"))

    failing.waits(clock)

    job = failing.job()
    assert failing.attempts == [1, 2, 3]
    assert (job.state, job.reason) == (State.FAILED, "failed")
    assert "three" in (job.error or "")
    assert events(job) == ["retry", "retry", "fail"]
    assert len(failing.keys) == 1


def test_a_success_ends_the_tries_and_clears_the_error(timed_app: Duly, clock: VirtualClock) -> None:
    policy = Retry(on=CloudError, attempts=5, backoff="fixed", first="1s")
    failing = Failing(timed_app, policy, CloudError("one"), BrokenPipe("two"))

    failing.waits(clock)

    job = failing.job()
    assert failing.attempts == [1, 2, 3]
    assert (job.state, job.error) == (State.DONE, None)


@pytest.mark.parametrize(
    "error", [ValueError("no"), KeyError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()]
)
def test_an_exception_that_is_not_listed_fails_at_once(timed_app: Duly, error: BaseException) -> None:
    failing = Failing(timed_app, Retry(on=(CloudError, OSError), attempts=5), error)

    run_all(timed_app)

    job = failing.job()
    assert (failing.attempts, job.state) == ([1], State.FAILED)
    assert type(error).__name__ in (job.error or "")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
@pytest.mark.parametrize("soft_limit", [None, "1m"], ids=["plain", "with a soft limit"])
def test_leaving_an_async_body_that_way_ends_the_run_and_not_the_worker(
    app: Duly, error: BaseException, soft_limit: str | None
) -> None:
    @app.task(soft_limit=soft_limit)
    async def leave() -> None:
        raise error

    with working(app):
        first, second = (ended(app, leave.enqueue()) for _ in range(2))

    assert (first.state, second.state) == (State.FAILED, State.FAILED)
    assert type(error).__name__ in (first.error or "")


def test_without_a_policy_the_first_failure_is_the_last(app: Duly) -> None:
    failing = Failing(app, None, CloudError())

    run_all(app)

    assert failing.job().state is State.FAILED


def test_an_async_body_is_tried_again_too(timed_app: Duly, clock: VirtualClock) -> None:
    seen: list[int] = []

    @timed_app.task(retry=Retry(on=CloudError, attempts=2, backoff="fixed", first="1s"), keep_result="1h")
    async def fetch(run: Run) -> str:
        seen.append(run.attempt)
        if run.attempt == 1:
            raise CloudError
        return "page"

    handle = fetch.enqueue()
    run_all(timed_app)
    clock.advance("1s")
    run_all(timed_app)

    assert (handle.result(timeout=0), seen) == ("page", [1, 2])


def test_a_job_that_waits_for_its_next_try_keeps_nobody_else_waiting(app: Duly) -> None:
    failing = Failing(app, Retry(on=CloudError, backoff="fixed", first="1h"), CloudError())
    gate = Gate()

    @app.task
    def pass_by() -> None:
        gate.wait_here()

    with working(app, concurrency=1):
        until(lambda: failing.attempts == [1])
        pass_by.enqueue()
        gate.reached()
        gate.open()


# --- what a body asks for -----------------------------------------------------------------------


def test_retry_after_replaces_the_computed_wait_within_the_attempts(
    timed_app: Duly, clock: VirtualClock
) -> None:
    policy = Retry(on=CloudError, attempts=3, backoff="fixed", first="1s")
    failing = Failing(timed_app, policy, RetryAfter("90s"), RetryAfter(timedelta(minutes=2)), RetryAfter(1))

    assert failing.waits(clock) == [90, 120]
    assert failing.job().state is State.FAILED


def test_retry_after_works_without_a_policy(timed_app: Duly, clock: VirtualClock) -> None:
    failing = Failing(timed_app, None, RetryAfter("30s"))

    assert failing.waits(clock) == [30]
    assert failing.job().state is State.DONE


def test_a_retry_after_nobody_can_read_fails_the_job_and_not_the_worker(app: Duly) -> None:
    failing = Failing(app, None, RetryAfter("soon"))
    other = app.task(name="other")(lambda: None)

    with working(app):
        job = ended(app, failing.handle)
        ended(app, other.enqueue())

    assert job.state is State.FAILED
    assert "soon" in (job.error or "")


def test_deferrals_have_a_budget_of_their_own(timed_app: Duly, clock: VirtualClock) -> None:
    seen: list[int] = []

    @timed_app.task(retry=Retry(on=CloudError, attempts=2, backoff="fixed", first="1s"), max_deferrals=3)
    def poll(run: Run) -> None:
        seen.append(run.attempt)
        if len(seen) == 2:
            raise CloudError
        run.defer("1s")

    handle = poll.enqueue()
    for _ in range(9):
        run_all(timed_app)
        clock.advance("1s")

    job = timed_app.jobs.get(handle)
    assert seen == [1, 1, 2, 2, 2]
    assert (job.state, job.reason, job.deferrals, job.attempt) == (State.FAILED, "deferred too often", 3, 1)


# --- when it has failed for good ----------------------------------------------------------------


def test_a_function_as_hook_is_told_once_when_nothing_is_left(timed_app: Duly, clock: VirtualClock) -> None:
    told: list[Failure] = []
    policy = Retry(on=CloudError, attempts=2, backoff="fixed", first="1s")
    failing = Failing(timed_app, policy, CloudError("one"), CloudError("two"), on_failure=told.append)

    failing.waits(clock)

    [failure] = told
    assert (failure.id, failure.task, failure.reason) == (failing.handle.id, failing.task.name, "failed")
    assert "two" in failure.error


def test_an_async_function_as_hook_is_awaited(app: Duly) -> None:
    told: list[str] = []

    async def tell(failure: Failure) -> None:
        told.append(failure.id)

    failing = Failing(app, None, ValueError("boom"), on_failure=tell)
    run_all(app)

    assert told == [failing.handle.id]


def test_a_task_as_hook_is_enqueued_with_the_failure(app: Duly) -> None:
    told: list[tuple[str, str]] = []

    @app.task
    def tell(job_id: str, error: str) -> None:
        told.append((job_id, error.splitlines()[-1]))

    failing = Failing(app, None, ValueError("boom"), on_failure=tell)
    run_all(app)

    assert told == [(failing.handle.id, "ValueError: boom")]


def _raise(_: object) -> None:
    raise RuntimeError("the hook is broken")


@pytest.mark.parametrize("hook", ["raises", "cannot be enqueued"])
def test_a_broken_hook_costs_neither_the_verdict_nor_the_worker(
    app: Duly, hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(unique_for="1m")
    def needs_a_key(job_id: str, error: str) -> None:
        pass

    on_failure = _raise if hook == "raises" else needs_a_key
    failing = Failing(app, None, ValueError("boom"), on_failure=on_failure)

    with caplog.at_level(logging.ERROR), working(app):
        job = ended(app, failing.handle)
        until(lambda: "on_failure" in caplog.text)
        ended(app, failing.task.enqueue())

    assert job.state is State.FAILED
