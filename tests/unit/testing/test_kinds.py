"""Schedules, perpetual tasks and flow control in virtual time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import duly
from duly import Duly, Run, State
from duly.testing import Ran, WorkingClock

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def outcomes(runs: list[Ran]) -> list[str]:
    return [ran.outcome for ran in runs]


def minutes(runs: list[Ran]) -> list[float]:
    return [(ran.at - NOON) / timedelta(minutes=1) for ran in runs]


def test_every_tick_comes_at_its_instant(app: Duly, clock: WorkingClock) -> None:
    ticks: list[datetime | None] = []

    @app.schedule(cron="15 * * * *")
    @app.task
    def report(run: Run) -> None:
        ticks.append(run.tick)

    runs = clock.run_until("3h")

    assert minutes(runs) == [15, 75, 135]
    assert ticks == [ran.tick for ran in runs] == [ran.at for ran in runs]


def test_a_jump_leaves_missed_ticks_to_the_policy(app: Duly, clock: WorkingClock) -> None:
    @app.schedule(every="10m", missed="all")
    @app.task(name="all")
    def everything() -> None: ...

    @app.schedule(every="10m", missed="last")
    @app.task(name="last")
    def newest() -> None: ...

    clock.advance("35m")
    runs = clock.run_due()

    assert [ran.task for ran in runs].count("all") == 3
    assert [ran.tick for ran in runs if ran.task == "last"] == [NOON + timedelta(minutes=30)]


def test_a_paused_task_does_not_tick_until_resumed(app: Duly, clock: WorkingClock) -> None:
    @app.schedule(every="10m")
    @app.task
    def report() -> None: ...

    app.pause(task=report)
    assert clock.run_until("1h") == []
    app.resume(task=report)

    assert len(clock.run_due()) == 1


def test_a_fixed_delay_counts_from_the_end_of_the_last_run(app: Duly, clock: WorkingClock) -> None:
    @app.schedule(every="10m", mode="delay")
    @app.task
    def report() -> None:
        clock.advance("5m")

    runs = clock.run_until("40m")

    assert minutes(runs) == [0, 15, 30]


def test_an_operator_triggers_and_edits_schedules_in_virtual_time(app: Duly, clock: WorkingClock) -> None:
    @app.schedule(cron="0 0 1 1 *", name="yearly")
    @app.task
    def report() -> None: ...

    app.schedules.trigger("yearly")
    assert len(clock.run_due()) == 1
    app.schedules.edit("yearly", cron="*/30 * * * *")

    assert minutes(clock.run_until("1h")) == [30, 60]


def test_an_automatic_perpetual_runs_from_the_start(app: Duly) -> None:
    @app.perpetual(every="20m", automatic=True)
    def poll() -> None: ...

    with duly.testing.virtual(app) as clock:
        runs = clock.run_until("1h")

    assert minutes(runs) == [0, 20, 40, 60]
    assert set(outcomes(runs)) == {"again"}


def test_again_stop_and_restart(app: Duly, clock: WorkingClock) -> None:
    @app.perpetual(every="1h")
    def poll(run: Run) -> None:
        if len(clock.runs) < 2:
            run.again(after="7m")
        else:
            run.stop()

    poll.enqueue()
    runs = clock.run_until("1d")
    assert (minutes(runs), outcomes(runs)) == ([0, 7, 14], ["again", "again", "stop"])

    poll.enqueue()
    assert outcomes(clock.run_due()) == ["stop"]


def test_a_stopped_automatic_perpetual_stays_stopped(app: Duly) -> None:
    @app.perpetual(every="20m", automatic=True)
    def poll(run: Run) -> None:
        run.stop()

    with duly.testing.virtual(app) as clock:
        assert len(clock.run_until("1d")) == 1


def test_a_task_defined_inside_the_world_is_known(app: Duly, clock: WorkingClock) -> None:
    @app.perpetual(every="20m", automatic=True)
    def poll() -> None: ...

    assert len(clock.run_due()) == 1


def test_a_deferral_counts_no_attempt(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def mail(run: Run) -> None:
        if app.clock.now() < NOON + timedelta(hours=2):
            run.defer("1h")

    mail.enqueue()
    runs = clock.run_until("1d")

    assert (minutes(runs), outcomes(runs)) == ([0, 60, 120], ["defer", "defer", "done"])
    assert {ran.attempt for ran in runs} == {1}


@pytest.mark.parametrize("scope", ["cluster", "process"])
def test_a_throttle_holds_the_task_at_once(app: Duly, clock: WorkingClock, scope: Any) -> None:
    @app.task
    def call(run: Run, number: int) -> None:
        if number == 1:
            run.throttle("10m", scope=scope)

    call.enqueue(1)
    call.enqueue(2)

    assert [ran.args for ran in clock.run_due()] == [(1,)]
    assert minutes(clock.run_until("1h")) == [10]


def test_progress_is_seen_at_once(app: Duly, clock: WorkingClock) -> None:
    seen: list[str | None] = []

    @app.task
    def load(run: Run) -> None:
        run.progress(3, 10, "rows")
        seen.append(app.jobs.get(run.id).progress)

    load.enqueue()
    clock.run_due()

    assert seen == ['{"done": 3, "total": 10, "message": "rows"}']


def test_a_request_for_the_own_key_is_settled_with_the_run(app: Duly, clock: WorkingClock) -> None:
    @app.task
    def crawl(page: int) -> None:
        if page < 3:
            later = crawl.using(key="site", run_after="1m").enqueue(page + 1)
            assert later.decision == "pending"

    crawl.using(key="site").enqueue(1)
    runs = clock.run_until("1h")

    assert [ran.args for ran in runs] == [(1,), (2,), (3,)]
    assert minutes(runs) == [0, 1, 2]


def test_a_rate_limit_spreads_the_starts(app: Duly, clock: WorkingClock) -> None:
    @app.task(rate="2/m")
    def call() -> None: ...

    for _ in range(5):
        call.enqueue()

    assert minutes(clock.run_until("10m")) == [0, 0, 1, 1, 2]


def test_expired_work_is_never_run(app: Duly, clock: WorkingClock) -> None:
    @app.task(expires="10m")
    def mail() -> None: ...

    job = mail.enqueue()
    clock.advance("11m")

    assert clock.run_due() == []
    assert job.state() is State.SKIPPED


def test_a_bound_context_reaches_the_body_and_no_further(app: Duly, clock: WorkingClock) -> None:
    seen: list[Any] = []

    @app.task
    def mail() -> None:
        seen.append(dict(duly.context.bound()))

    with duly.bind(user=7):
        mail.enqueue()
    mail.enqueue()
    with duly.bind(user=8):
        clock.run_due()

    assert seen == [{"user": 7}, {}]
