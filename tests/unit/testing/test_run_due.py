"""Running what is due: one-off tasks, failures and retries, without a second of real time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from duly import Duly, Retry, RetryAfter, Run, SoftLimitExceeded, State
from duly.errors import ConditionFailed
from duly.events import Event
from duly.lifecycle import Fail
from duly.testing import Ran, WorkingClock
from duly.worker.failures import Failure

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def outcomes(runs: list[Ran]) -> list[str]:
    return [ran.outcome for ran in runs]


def minutes(runs: list[Ran]) -> list[float]:
    return [(ran.at - NOON) / timedelta(minutes=1) for ran in runs]


def test_a_due_job_runs_and_its_run_is_told(app: Duly, clock: WorkingClock) -> None:
    @app.task(name="mail")
    def mail(to: str, *, subject: str) -> None: ...

    job = mail.using(key="ada").enqueue("ada@example.org", subject="hello")
    (ran,) = clock.run_due()

    assert (ran.task, ran.key, ran.id, ran.outcome, ran.state) == ("mail", "ada", job.id, "done", State.DONE)
    assert (ran.args, ran.kwargs) == (("ada@example.org",), {"subject": "hello"})
    assert (ran.attempt, ran.at, ran.error, ran.exception) == (1, NOON, None, None)
    assert clock.runs == [ran]


def test_what_is_not_due_yet_does_not_run(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail() -> None: ...

    mail.using(run_after="1h").enqueue()

    assert clock.run_due() == []
    clock.advance("59m")
    assert clock.run_due() == []
    clock.advance("1m")
    assert outcomes(clock.run_due()) == ["done"]


def test_work_that_becomes_due_by_a_run_runs_in_the_same_call(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def child(number: int) -> None: ...

    @app.task
    def parent() -> None:
        child.enqueue(1)
        child.enqueue(2)

    parent.enqueue()

    assert [ran.args for ran in clock.run_due()] == [(), (1,), (2,)]


def test_the_order_is_by_priority_then_due_time_then_request(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail(word: str) -> None: ...

    mail.using(run_after="2s").enqueue("later")
    mail.using(run_after="1s").enqueue("first")
    mail.using(run_after="1s").enqueue("second")
    mail.using(run_after="2s", priority=5).enqueue("urgent")
    clock.advance("1m")

    assert [ran.args[0] for ran in clock.run_due()] == ["urgent", "first", "second", "later"]


def test_a_failure_carries_its_traceback_and_its_exception(app: Duly, clock: WorkingClock) -> None:
    @app.task(name="mail")
    def mail() -> None:
        raise LookupError("no such address")

    mail.enqueue()
    (ran,) = clock.run_due()

    assert (ran.outcome, ran.state) == ("fail", State.FAILED)
    assert isinstance(ran.exception, LookupError)
    assert ran.error is not None
    assert "Traceback" in ran.error
    assert str(ran) == "mail() fail: LookupError: no such address"


def test_results_are_kept_as_the_task_asks(app: Duly, clock: WorkingClock) -> None:
    @app.task(keep_result="1h")
    def add(first: int, second: int) -> int:
        return first + second

    job = add.enqueue(2, 3)
    clock.run_due()

    assert job.result(timeout=0) == 5


def test_a_condition_that_fails_skips_the_run(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail() -> None:
        raise ConditionFailed("already sent")

    mail.enqueue()

    assert [(ran.outcome, ran.state) for ran in clock.run_due()] == [("skip", State.SKIPPED)]


def test_arguments_that_cannot_be_rebuilt_fail_the_job_by_name(app: Duly, clock: WorkingClock) -> None:
    @app.task(retry=Retry(on=Exception))
    def mail(word: str) -> None: ...

    job = mail.enqueue("x")
    clock.store.world.rows[job.id].arguments = "no json"
    (ran,) = clock.run_due()

    assert ran.state is State.FAILED
    assert isinstance(ran.verdict, Fail)
    assert ran.verdict.reason == "arguments cannot be decoded"


def test_retries_come_exactly_when_their_backoff_says(app: Duly, clock: WorkingClock) -> None:
    @app.task(retry=Retry(on=OSError, attempts=4, first="1m", factor=2))
    def mail() -> None:
        raise OSError("down")

    mail.enqueue()
    runs = clock.run_until("1h")

    assert minutes(runs) == [0, 1, 3, 7]
    assert outcomes(runs) == ["retry", "retry", "retry", "fail"]
    assert [ran.attempt for ran in runs] == [1, 2, 3, 4]


def test_a_retry_without_a_wait_runs_in_the_same_call(app: Duly, clock: WorkingClock) -> None:
    @app.task(retry=Retry(on=OSError, attempts=3, backoff="fixed", first=0))
    def mail(run: Run) -> None:
        if run.attempt < 3:
            raise OSError("down")

    mail.enqueue()

    assert outcomes(clock.run_due()) == ["retry", "retry", "done"]


def test_retry_after_is_honoured(app: Duly, clock: WorkingClock) -> None:
    @app.task(retry=Retry(on=OSError, attempts=2))
    def mail(run: Run) -> None:
        if run.attempt == 1:
            raise RetryAfter("42m")

    mail.enqueue()

    assert minutes(clock.run_until("1h")) == [0, 42]


def test_a_retry_that_cannot_be_understood_fails_the_job(app: Duly, clock: WorkingClock) -> None:
    @app.task(retry=Retry(on=OSError))
    def mail() -> None:
        raise RetryAfter("soon")

    mail.enqueue()
    (ran,) = clock.run_due()

    assert ran.state is State.FAILED


@pytest.mark.parametrize("error", [SystemExit(3), SoftLimitExceeded(), asyncio.CancelledError()])
def test_what_a_worker_takes_for_a_failure_is_one_here(
    app: Duly, clock: WorkingClock, error: BaseException
) -> None:
    @app.task
    def mail() -> None:
        raise error

    mail.enqueue()

    assert outcomes(clock.run_due()) == ["fail"]


def test_an_interrupt_is_the_test_s_and_hands_the_job_back(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail() -> None:
        raise KeyboardInterrupt

    job = mail.enqueue()
    with pytest.raises(KeyboardInterrupt):
        clock.run_due()

    assert (job.state(), app.jobs.get(job).attempt) == (State.WAITING, 0)


def test_a_failure_hook_task_is_enqueued_with_the_failure(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def alarm(job_id: str, error: str) -> None: ...

    @app.task(on_failure=alarm)
    def mail() -> None:
        raise OSError("down")

    job = mail.enqueue()
    clock.run_due()

    assert clock.assert_enqueued(alarm).args[0] == job.id


def test_a_failure_hook_function_is_called(app: Duly, clock: WorkingClock) -> None:
    told: list[Failure] = []

    @app.task(on_failure=told.append)
    def mail() -> None:
        raise OSError("down")

    mail.enqueue()
    clock.run_due()

    assert [failure.reason for failure in told] == ["failed"]


def test_listeners_are_told(app: Duly, clock: WorkingClock) -> None:
    @app.task(name="mail")
    def mail() -> None:
        clock.advance("90s")

    heard: list[Event] = []
    app.events.subscribe(heard.append)
    mail.enqueue()
    clock.run_due()

    assert [(event.kind, event.task, event.seconds) for event in heard] == [("done", "mail", 90.0)]
