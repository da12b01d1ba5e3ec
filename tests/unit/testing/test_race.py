"""The race of a perpetual task with its own replacement, told with duly.testing.

t0  A is scheduled                     t3  B runs beside A
t1  A runs, with the old interval      t4  B ends and schedules C by the new interval
t2  the interval changes: replace -> B t5  A ends, with stale timing: C must stay in force
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duly import Duly, Retry, Run, State, Task
from duly.testing import Ran, WorkingClock

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
STALE, FRESH = timedelta(hours=1), timedelta(minutes=1)


@dataclass
class Config:
    """What the user changes while A runs."""

    interval: timedelta = STALE
    ran_with: list[timedelta] = field(default_factory=list[timedelta])


Ending = Callable[[Task[..., Any, Any], Run, timedelta], None]


def again(_poll: Task[..., Any, Any], run: Run, interval: timedelta) -> None:
    """As perpetual tasks do."""
    run.again(after=interval)


def replaces_itself(poll: Task[..., Any, Any], _run: Run, interval: timedelta) -> None:
    """As in a finally block written by hand."""
    poll.using(key="tenant", replace=True, run_after=interval).enqueue()


def fails(_poll: Task[..., Any, Any], run: Run, interval: timedelta) -> None:
    """The stale run would be tried again."""
    run.again(after=interval)
    if interval == STALE:
        raise OSError("stale")


def stops(_poll: Task[..., Any, Any], run: Run, interval: timedelta) -> None:
    """The stale run would end the cycle for good."""
    run.again(after=interval)
    if interval == STALE:
        run.stop()


def fails_for_good(_poll: Task[..., Any, Any], run: Run, interval: timedelta) -> None:
    """The stale run would go on after its failure."""
    run.again(after=interval)
    if interval == STALE:
        raise ValueError("stale")


def make_poll(app: Duly, config: Config, end: Ending, overlap: Any = "allow") -> Task[..., Any, Any]:
    @app.perpetual(every="1d", overlap=overlap, retry=Retry(on=OSError, first="10s"))
    def poll(run: Run) -> None:
        config.ran_with.append(config.interval)
        end(poll, run, config.interval)

    return poll


def in_force(clock: WorkingClock, poll: Task[..., Any, Any]) -> list[datetime | None]:
    return [entry.ready_at for entry in clock.enqueued(poll) if entry.state is State.WAITING]


@pytest.mark.parametrize("end", [again, replaces_itself, fails, stops, fails_for_good])
def test_the_race_ends_with_the_newer_timing_in_force(app: Duly, clock: WorkingClock, end: Ending) -> None:
    config = Config()
    poll = make_poll(app, config, end)

    poll.using(key="tenant").enqueue()  # t0
    with clock.freeze_at("before_settle", beating=True) as a:
        clock.run_due()  # t1: A has read the old interval and is about to end
    config.interval = FRESH
    poll.using(key="tenant", replace=True).enqueue()  # t2
    clock.run_due()  # t3, t4: B runs to its end beside A, and C stands
    assert in_force(clock, poll) == [NOON + FRESH]
    late = a.thaw()  # t5

    assert (late.outcome, late.state) == ("superseded", State.CANCELLED)
    assert in_force(clock, poll) == [NOON + FRESH]
    assert config.ran_with == [STALE, FRESH]


@pytest.mark.parametrize("end", [again, replaces_itself, fails, stops, fails_for_good])
def test_a_stale_run_that_ends_before_its_successor_starts_changes_nothing(
    app: Duly, clock: WorkingClock, end: Ending
) -> None:
    config = Config()
    poll = make_poll(app, config, end, overlap="queue_one")

    poll.using(key="tenant").enqueue()
    with clock.freeze_at("before_settle") as a:
        clock.run_due()
    config.interval = FRESH
    poll.using(key="tenant", replace=True).enqueue()
    assert clock.run_due() == []  # B waits behind A
    assert a.thaw().outcome == "superseded"
    clock.run_due()

    assert in_force(clock, poll) == [NOON + FRESH]


def test_a_key_that_was_deleted_and_made_anew_is_not_mistaken_for_the_old_one(
    app: Duly, clock: WorkingClock
) -> None:
    config = Config()
    poll = make_poll(app, config, again)

    first = poll.using(key="tenant").enqueue()
    with clock.freeze_at("before_settle", beating=True) as a:
        clock.run_due()
    app.jobs.delete(first)
    config.interval = FRESH
    second = poll.using(key="tenant").enqueue()
    clock.run_due()
    a.thaw()

    assert second.generation > first.generation
    assert in_force(clock, poll) == [NOON + FRESH]


def test_a_zombie_of_the_same_generation_does_not_win(app: Duly, clock: WorkingClock) -> None:
    config = Config()
    poll = make_poll(app, config, again)

    poll.using(key="tenant").enqueue()
    with clock.freeze_at("before_settle") as zombie:
        clock.run_due()
    config.interval = FRESH
    clock.advance("30s")
    clock.run_due()  # the same job, lent again
    now = clock.now()
    late: Ran = zombie.thaw()

    assert late.outcome == "lost"
    assert in_force(clock, poll) == [now + FRESH]


def test_the_race_within_one_body(app: Duly, clock: WorkingClock) -> None:
    """Without freezing: the body itself lets the others happen, elsewhere."""
    config = Config()

    @app.perpetual(every="1d", overlap="allow")
    def poll(run: Run) -> None:
        interval = config.interval
        if interval == STALE:
            config.interval = FRESH
            with clock.elsewhere():
                poll.using(replace=True).enqueue()
            clock.run_due()
        run.again(after=interval)

    poll.enqueue()
    clock.run_due()

    assert [ran.outcome for ran in clock.runs] == ["again", "superseded"]
    assert in_force(clock, poll) == [NOON + FRESH]
