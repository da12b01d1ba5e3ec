"""What if we die here? Crashes and freezes at the five points of a run."""

from __future__ import annotations

from typing import Any

import pytest

from duly import Duly, Retry, Run, State
from duly.errors import DefinitionError, DulyError
from duly.failpoints import POINTS
from duly.testing import Ran, WorkingClock

LEASE = "30s"


def outcomes(runs: list[Ran]) -> list[str]:
    return [ran.outcome for ran in runs]


@pytest.mark.parametrize(
    ("point", "bodies"),
    [("after_claim", 1), ("before_body", 1), ("after_body", 2), ("before_settle", 2)],
)
def test_a_crash_before_the_verdict_is_written_runs_the_job_again_after_the_lease(
    app: Duly, clock: WorkingClock, point: Any, bodies: int
) -> None:
    calls: list[int] = []

    @app.task
    def mail() -> None:
        calls.append(1)

    job = mail.enqueue()
    with clock.crash_at(point, task=mail):
        (crashed,) = clock.run_due()
    assert (crashed.outcome, crashed.state, crashed.verdict) == ("crashed", State.RUNNING, None)

    clock.advance("29s")
    assert clock.run_due() == []
    clock.advance("1s")
    assert outcomes(clock.run_due()) == ["done"]
    assert (len(calls), job.state()) == (bodies, State.DONE)


def test_a_crash_after_the_verdict_is_written_changes_nothing(app: Duly, clock: WorkingClock) -> None:
    calls: list[int] = []

    @app.task
    def mail() -> None:
        calls.append(1)

    job = mail.enqueue()
    with clock.crash_at("after_settle", task=mail):
        clock.run_due()

    assert job.state() is State.DONE
    assert clock.run_until("1h") == []
    assert calls == [1]


def test_the_lease_that_must_run_out_is_the_application_s() -> None:
    from duly.testing import virtual

    app = Duly("memory://", lease="5m")
    mail = app.task(name="mail")(lambda: None)
    with virtual(app) as clock:
        mail.enqueue()
        with clock.crash_at("after_body"):
            clock.run_due()
        start = clock.now()
        (ran,) = clock.run_until("1h")

    assert (ran.at - start).total_seconds() == 300


def test_recovery_comes_by_itself_when_time_runs(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail() -> None: ...

    mail.enqueue()
    with clock.crash_at("before_settle", nth=1):
        runs = clock.run_until("1m")

    assert outcomes(runs) == ["crashed", "done"]


def test_the_worker_s_death_ends_the_call_and_the_next_call_starts_another(
    app: Duly, clock: WorkingClock
) -> None:
    @app.task(name="poison")
    def poison() -> None: ...

    @app.task(name="mail")
    def mail() -> None: ...

    poison.enqueue()
    mail.enqueue()
    with clock.crash_at("before_body", task=poison):
        assert [str(ran) for ran in clock.run_due()] == ["poison() crashed"]
        assert [str(ran) for ran in clock.run_due()] == ["mail() done"]


def test_one_key_can_be_singled_out(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail(to: str) -> None: ...

    mail.using(key="ada").enqueue("ada")
    mail.using(key="bob").enqueue("bob")
    with clock.crash_at("after_claim", key="bob"):
        assert outcomes(clock.run_due()) == ["done", "crashed"]


def test_nth_counts_arrivals(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail(number: int) -> None: ...

    for number in range(3):
        mail.enqueue(number)
    with clock.crash_at("after_body", nth=2):
        assert outcomes(clock.run_due()) == ["done", "crashed"]
        assert outcomes(clock.run_due()) == ["done"]


def test_a_first_death_makes_a_suspect_and_the_third_in_isolation_fails_the_job(
    app: Duly, clock: WorkingClock
) -> None:
    @app.task
    def poison() -> None: ...

    job = poison.enqueue()
    counted: list[int] = []
    with clock.crash_at("before_body"):
        for _ in range(4):
            clock.run_due()
            clock.advance(LEASE)
            counted.append(app.jobs.get(job).crashes)
        clock.run_due()

    found = app.jobs.get(job)
    assert counted == [0, 0, 1, 2]
    assert (found.state, found.reason, found.crashes) == (State.FAILED, "crashed too often", 3)


def test_a_death_before_the_start_in_isolation_is_not_counted(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail() -> None: ...

    job = mail.enqueue()
    with clock.crash_at("after_claim"):
        for _ in range(6):
            clock.run_due()
            clock.advance(LEASE)

    assert outcomes(clock.run_due()) == ["done"]
    assert app.jobs.get(job).crashes == 0


def test_a_task_that_needs_a_process_is_counted_from_its_first_death(app: Duly, clock: WorkingClock) -> None:
    @app.task(hard_limit="1m")
    def poison() -> None: ...

    job = poison.enqueue()
    with clock.crash_at("after_body"):
        for _ in range(3):
            clock.run_due()
            clock.advance(LEASE)
    clock.run_due()

    assert app.jobs.get(job).state is State.FAILED


def test_a_crash_counts_no_attempt(app: Duly, clock: WorkingClock) -> None:
    attempts: list[int] = []

    @app.task(retry=Retry(on=OSError, attempts=2, first="1m"))
    def mail(run: Run) -> None:
        attempts.append(run.attempt)
        if len(attempts) < 3:
            raise OSError("down")

    mail.enqueue()
    with clock.crash_at("after_body", nth=1):
        runs = clock.run_until("1h")

    assert outcomes(runs) == ["crashed", "retry", "done"]
    assert attempts == [1, 1, 2]


@pytest.mark.parametrize(
    ("point", "state"),
    [("after_claim", State.DONE), ("before_body", State.FAILED), ("after_body", State.FAILED)],
)
def test_at_most_once_is_never_started_twice(
    app: Duly, clock: WorkingClock, point: Any, state: State
) -> None:
    calls: list[int] = []

    @app.task(delivery="at_most_once")
    def pay() -> None:
        calls.append(1)

    job = pay.enqueue()
    with clock.crash_at(point):
        clock.run_due()
    clock.run_until("1h")

    assert job.state() is state
    assert len(calls) <= 1
    if state is State.FAILED:
        assert app.jobs.get(job).reason == "interrupted, outcome unknown"


def test_a_crash_loses_what_only_the_worker_knew(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def call(run: Run, number: int) -> None:
        if number == 1:
            run.throttle("1h", scope="process")

    call.enqueue(1)
    call.enqueue(2)
    with clock.crash_at("after_settle", nth=1):
        clock.run_due()

    assert [ran.args for ran in clock.run_due()] == [(2,)]


def test_a_perpetual_survives_the_death_of_its_worker(app: Duly, clock: WorkingClock) -> None:
    @app.perpetual(every="10m")
    def poll() -> None: ...

    poll.enqueue()
    with clock.crash_at("before_settle", nth=1):
        runs = clock.run_until("25m")

    assert outcomes(runs) == ["crashed", "again", "again", "again"]


@pytest.mark.parametrize("point", POINTS)
def test_a_point_nobody_reached_fails_the_test(app: Duly, clock: WorkingClock, point: Any) -> None:
    @app.task(name="mail")
    def mail() -> None: ...

    with (
        pytest.raises(AssertionError, match=f"No run of mail reached {point}"),
        clock.crash_at(point, task=mail),
    ):
        clock.run_due()


def test_a_failing_block_keeps_its_own_error(clock: WorkingClock) -> None:
    with pytest.raises(ZeroDivisionError), clock.crash_at("after_body"):
        raise ZeroDivisionError


def test_an_unknown_point_is_refused(clock: WorkingClock) -> None:
    somewhere: Any = "somewhere"
    with pytest.raises(DefinitionError, match="after_claim"), clock.crash_at(somewhere):
        pass
    with pytest.raises(DefinitionError, match="from 1"), clock.crash_at("after_body", nth=0):
        pass


# freezing


def test_a_frozen_worker_that_wakes_after_its_lease_changes_nothing(app: Duly, clock: WorkingClock) -> None:
    results: list[str] = []

    @app.task(keep_result="1h")
    def price(run: Run) -> str:
        results.append(f"run {run.epoch}")
        return results[-1]

    job = price.enqueue()
    with clock.freeze_at("before_settle", task=price) as frozen:
        (standing,) = clock.run_due()
    assert (standing.outcome, standing.state, frozen.is_frozen) == ("frozen", State.RUNNING, True)

    clock.advance(LEASE)
    assert outcomes(clock.run_due()) == ["done"]
    late = frozen.thaw()

    assert (late.outcome, late.state) == ("lost", State.DONE)
    assert job.result(timeout=0) == "run 2"
    assert [line.event for line in app.jobs.get(job).history] == ["lease ran out", "done", "refused"]


def test_a_frozen_worker_that_wakes_in_time_settles(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail() -> None: ...

    mail.enqueue()
    with clock.freeze_at("after_body") as frozen:
        clock.run_due()
    clock.advance("20s")
    assert clock.run_due() == []

    assert frozen.thaw().outcome == "done"
    assert not frozen.is_frozen


def test_a_slow_run_keeps_its_lease(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail() -> None: ...

    mail.enqueue()
    with clock.freeze_at("after_body", beating=True) as frozen:
        clock.run_due()
    clock.advance("1h")
    assert clock.run_due() == []

    assert frozen.thaw().outcome == "done"


def test_other_work_goes_on_beside_a_frozen_run(app: Duly, clock: WorkingClock) -> None:
    @app.task(name="slow")
    def slow() -> None: ...

    @app.task(name="mail")
    def mail() -> None: ...

    slow.enqueue()
    mail.enqueue()
    with clock.freeze_at("before_body", task=slow) as frozen:
        clock.run_due()

    assert [str(ran) for ran in clock.run_due()] == ["mail() done"]
    assert str(frozen.thaw()) == "slow() done"


def test_a_second_request_waits_behind_a_run_that_stands_still(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def index(page: int) -> None: ...

    index.using(key="site").enqueue(1)
    with clock.freeze_at("before_body") as frozen:
        clock.run_due()
    assert index.using(key="site").enqueue(2).decision == "queued"
    assert clock.run_due() == []

    frozen.thaw()
    assert [ran.args for ran in clock.run_due()] == [(2,)]


def test_a_run_that_was_cancelled_before_its_recorded_start_does_not_start(
    app: Duly, clock: WorkingClock
) -> None:
    calls: list[int] = []

    @app.task(delivery="at_most_once")
    def pay() -> None:
        calls.append(1)

    job = pay.enqueue()
    with clock.freeze_at("after_claim") as frozen:
        clock.run_due()
    job.cancel()

    assert frozen.thaw().state is State.CANCELLED
    assert calls == []


def test_only_what_is_frozen_can_be_thawed(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail() -> None: ...

    mail.enqueue()
    with clock.freeze_at("before_body") as frozen:
        with pytest.raises(DulyError, match="Nothing stands still"):
            frozen.thaw()
        clock.run_due()
    frozen.thaw()

    with pytest.raises(DulyError, match="went on already"):
        frozen.thaw()


async def test_an_async_run_is_thawed_on_the_test_s_loop(app: Duly, clock: WorkingClock) -> None:
    @app.task
    async def fetch() -> None: ...

    await fetch.aenqueue()
    with clock.freeze_at("before_body") as frozen:
        await clock.arun_due()

    assert (await frozen.athaw()).outcome == "done"
