"""Schedules: one run per tick, whoever works; what becomes of missed ticks; what the clock does in spring."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.stories.arrange import Gate, OpenApp, ended, run_all, several_working, until, working

from duly import Duly, Run, State
from duly.testing import VirtualClock

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Ticking:
    """A scheduled task that notes its ticks."""

    def __init__(self, app: Duly, *, body: Callable[[Run], object] | None = None, **terms: Any) -> None:
        self.app = app
        self.ticks: list[datetime] = []

        @app.schedule(name="ticking", **terms)
        @app.task(name="tick")
        def tick(run: Run) -> None:
            assert run.tick is not None
            self.ticks.append(run.tick)
            if body is not None:
                body(run)

        self.task = tick

    def minutes(self) -> list[int]:
        """The ticks in minutes after noon."""
        return [(tick - NOON) // MINUTE for tick in self.ticks]


def at(minute: int, second: int = 0) -> datetime:
    return NOON + timedelta(minutes=minute, seconds=second)


def reach(clock: VirtualClock, instant: datetime) -> None:
    clock.advance(instant - clock.now())


def start(app: Duly) -> None:
    """The first worker writes the schedules down; from here on ticks count."""
    run_all(app)


def next_look(app: Duly) -> datetime:
    [view] = app.schedules.list()
    assert view.next_look is not None
    return view.next_look


def run_until(app: Duly, clock: VirtualClock, end: datetime) -> None:
    """From look to look, as a worker would that never stops."""
    while (look := next_look(app)) <= end:
        reach(clock, max(look, clock.now()))
        run_all(app)


# --- ticks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ({"every": "10m"}, [10, 20, 30]),
        ({"cron": "*/15 * * * *"}, [15, 30]),
        ({"cron": "0 5,7 * * * *"}, [5, 7]),
        ({"cron": "@hourly"}, []),
        ({"every": "20m", "start": at(5)}, [5, 25]),
        ({"every": "10m", "end": at(25)}, [10, 20]),
        ({"cron": "30 14 * * *", "timezone": "Asia/Kolkata"}, []),
        ({"cron": "0 18 * * *", "timezone": "Asia/Kolkata"}, [30]),
    ],
    ids=str,
)
def test_a_schedule_ticks_by_its_timetable(
    timed_app: Duly, clock: VirtualClock, terms: dict[str, Any], expected: list[int]
) -> None:
    ticking = Ticking(timed_app, **terms)
    start(timed_app)

    run_until(timed_app, clock, at(35))

    assert ticking.minutes() == expected


def test_arguments_of_a_schedule_reach_the_body(timed_app: Duly, clock: VirtualClock) -> None:
    seen: list[tuple[str, int]] = []

    @timed_app.schedule(every="10m", args=("report",), kwargs={"copies": 2})
    @timed_app.task
    def print_out(what: str, *, copies: int) -> None:
        seen.append((what, copies))

    start(timed_app)
    run_until(timed_app, clock, at(10))

    assert seen == [("report", 2)]


def test_one_task_may_have_several_schedules(timed_app: Duly, clock: VirtualClock) -> None:
    seen: list[str] = []

    @timed_app.task
    def note(word: str) -> None:
        seen.append(word)

    for word in ("one", "two"):
        timed_app.schedule(name=word, every="10m", args=(word,))(note)
    start(timed_app)
    reach(clock, at(10))
    run_all(timed_app)

    assert sorted(seen) == ["one", "two"]


def test_four_workers_run_each_tick_exactly_once(open_app: OpenApp) -> None:
    apps = [open_app() for _ in range(4)]
    tickings = [Ticking(app, every="50ms", missed="all", max_catch_up=10_000) for app in apps]

    def ticks() -> list[datetime]:
        return sorted(tick for ticking in tickings for tick in ticking.ticks)

    with several_working(*apps):
        until(lambda: len(ticks()) >= 12)

    seen = ticks()
    steps = {later - earlier for earlier, later in pairwise(seen)}
    assert steps == {timedelta(milliseconds=50)}  # none twice, none left out, no drift


def test_a_worker_that_restarts_all_the_time_runs_each_tick_once(
    timed_app: Duly, clock: VirtualClock
) -> None:
    ticking = Ticking(timed_app, every="10m")
    start(timed_app)

    for minute in range(1, 31):
        reach(clock, at(minute))
        for _ in range(3):
            run_all(timed_app)

    assert ticking.minutes() == [10, 20, 30]


def test_a_tick_runs_on_the_queue_of_its_task_whichever_worker_put_it(
    timed_app: Duly, clock: VirtualClock
) -> None:
    seen: list[int] = []

    @timed_app.schedule(every="10m")
    @timed_app.task(queue_name="reports")
    def report() -> None:
        seen.append(1)

    start(timed_app)
    reach(clock, at(10))
    run_all(timed_app, queues=["mail"])
    put, ran = timed_app.jobs.count(task=report), len(seen)
    run_all(timed_app, queues=["reports"])

    assert (put, ran, len(seen)) == (1, 0, 1)


def test_jitter_delays_a_tick_by_at_most_its_length(timed_app: Duly, clock: VirtualClock) -> None:
    ticking = Ticking(timed_app, every="10m", jitter="2m")
    start(timed_app)
    reach(clock, at(10))
    run_all(timed_app)

    [job] = timed_app.jobs.list(task="tick")
    assert at(10) < job.due <= at(12)
    reach(clock, job.due)
    run_all(timed_app)
    assert ticking.minutes() == [10]


def test_a_fixed_delay_counts_from_the_end_of_the_last_run(timed_app: Duly, clock: VirtualClock) -> None:
    ticking = Ticking(timed_app, every="10m", mode="delay", body=lambda run: clock.advance("4m"))
    start(timed_app)
    run_all(timed_app)

    run_until(timed_app, clock, at(40))

    assert ticking.minutes() == [0, 14, 28]


# --- missed ticks -------------------------------------------------------------------------------

MISSED: dict[str, tuple[dict[str, Any], list[int]]] = {
    "the last one by default": ({}, [50]),
    "none with skip": ({"missed": "skip"}, []),
    "all with all": ({"missed": "all"}, [10, 20, 30, 40, 50]),
    "at most so many": ({"missed": "all", "max_catch_up": 2}, [40, 50]),
    "one within the grace is on time": ({"missed": "skip", "grace": "5m"}, [50]),
    "those within the grace are on time": ({"missed": "skip", "grace": "15m"}, [50]),
}


@pytest.mark.parametrize("case", MISSED)
def test_ticks_missed_while_no_worker_ran_follow_the_policy(
    timed_app: Duly, clock: VirtualClock, case: str
) -> None:
    terms, expected = MISSED[case]
    ticking = Ticking(timed_app, every="10m", **terms)
    start(timed_app)

    reach(clock, at(52))
    run_all(timed_app)

    assert ticking.minutes() == expected
    assert next_look(timed_app) == at(60)


def test_the_next_tick_is_stored_and_not_in_anybodys_memory(open_app: OpenApp, clock: VirtualClock) -> None:
    first, second = open_app(clock=clock), open_app(clock=clock)
    Ticking(first, cron="0 13 * * *")
    start(first)

    reach(clock, at(60))
    later = Ticking(second, cron="0 13 * * *")
    run_all(second)

    assert later.minutes() == [60]


def test_hours_of_missed_ticks_do_not_run_as_many_times(timed_app: Duly, clock: VirtualClock) -> None:
    ticking = Ticking(timed_app, every="1s", missed="all", max_catch_up=5)
    start(timed_app)

    clock.advance("6h")
    run_all(timed_app)

    assert len(ticking.ticks) == 5
    assert ticking.ticks[-1] == NOON + timedelta(hours=6)


# --- slow runs ----------------------------------------------------------------------------------


def _overlapping(app: Duly, clock: VirtualClock, ticks: int, **terms: Any) -> Ticking:
    """The first run lasts over further ticks."""
    gate = Gate()
    ticking = Ticking(app, every="10m", body=lambda run: gate.wait_here(), **terms)
    with working(app):
        until(lambda: app.schedules.list()[0].next_look)
        for number in range(1, ticks + 1):
            reach(clock, at(10 * number))
            until(lambda: next_look(app) > clock.now())
            if number == 1:
                gate.reached()
        gate.open()
        until(lambda: app.jobs.count(task="tick", state=["waiting", "running"]) == 0)
    return ticking


def test_a_tick_during_a_run_waits_and_a_later_one_takes_its_place(
    timed_app: Duly, clock: VirtualClock
) -> None:
    ticking = _overlapping(timed_app, clock, 3, overlap="queue_one")

    assert ticking.minutes() == [10, 30]
    assert timed_app.jobs.count(task="tick", state="skipped") == 1


def test_a_tick_during_a_run_is_dropped_with_skip(timed_app: Duly, clock: VirtualClock) -> None:
    assert _overlapping(timed_app, clock, 3, overlap="skip").minutes() == [10]


def test_ticks_overlap_with_allow(timed_app: Duly, clock: VirtualClock) -> None:
    assert sorted(_overlapping(timed_app, clock, 3, overlap="allow").minutes()) == [10, 20, 30]


def test_with_missed_all_every_tick_waits_for_its_turn(timed_app: Duly, clock: VirtualClock) -> None:
    assert _overlapping(timed_app, clock, 3, missed="all").minutes() == [10, 20, 30]


# --- clocks -------------------------------------------------------------------------------------


def test_a_clock_set_back_runs_no_tick_twice(timed_app: Duly, clock: VirtualClock) -> None:
    ticking = Ticking(timed_app, every="10m")
    start(timed_app)
    reach(clock, at(20))
    run_all(timed_app)

    clock.step_wall(-timedelta(minutes=15))
    run_until(timed_app, clock, at(30))

    assert ticking.minutes() == [20, 30]


def test_a_clock_set_far_forward_costs_one_tick(timed_app: Duly, clock: VirtualClock) -> None:
    ticking = Ticking(timed_app, every="10m")
    start(timed_app)

    clock.step_wall(timedelta(days=3650))
    run_all(timed_app)
    clock.step_wall(-timedelta(days=3650))
    run_all(timed_app)

    assert len(ticking.ticks) == 1


@pytest.mark.parametrize(
    ("begin", "cron", "expected"),
    [
        ("2026-03-28 12:00", "30 2 * * *", ["03-29 03:00", "03-30 02:30"]),
        ("2026-10-24 12:00", "30 2 * * *", ["10-25 02:30", "10-26 02:30"]),
        ("2026-03-29 00:30", "0 * * * *", ["03-29 01:00", "03-29 03:00", "03-29 04:00"]),
        ("2026-10-25 01:30", "0 * * * *", ["10-25 02:00", "10-25 02:00", "10-25 03:00"]),
    ],
    ids=["daily in the gap", "daily in the repeat", "hourly over the gap", "hourly over the repeat"],
)
def test_a_day_of_23_or_25_hours_has_its_ticks_once(
    open_app: OpenApp, begin: str, cron: str, expected: list[str]
) -> None:
    paris = ZoneInfo("Europe/Paris")
    clock = VirtualClock(datetime.fromisoformat(begin).replace(tzinfo=paris).astimezone(UTC))
    app = open_app(clock=clock)
    ticking = Ticking(app, cron=cron, timezone="Europe/Paris")
    start(app)

    while len(ticking.ticks) < len(expected):
        reach(clock, next_look(app))
        run_all(app)

    assert [f"{tick.astimezone(paris):%m-%d %H:%M}" for tick in ticking.ticks] == expected
    assert len(set(ticking.ticks)) == len(expected)


def test_a_schedule_this_worker_cannot_read_costs_it_nothing(open_app: OpenApp, clock: VirtualClock) -> None:
    app = open_app(clock=clock)
    ticking = Ticking(app, every="10m")
    other = app.task(lambda: None)
    start(app)

    with working(app):
        ended(app, other.enqueue())  # it has written its own terms down by now
        by_newer_code = '{"task": "tick", "every": 600, "colour": "red"}'
        app.store.run(app.store.record("schedule", "ticking", by_newer_code))
        reach(clock, at(10))
        until(lambda: at(10) < next_look(app) < at(11))
        job = ended(app, other.enqueue())

    assert (job.state, ticking.ticks) == (State.DONE, [])


def test_a_schedule_that_left_the_code_is_parked_and_comes_back_with_it(
    open_app: OpenApp, clock: VirtualClock
) -> None:
    before, without, after = (open_app(clock=clock) for _ in range(3))
    Ticking(before, every="10m")
    start(before)

    reach(clock, at(35))
    run_all(without)
    [parked] = without.schedules.list()
    back = Ticking(after, every="10m")
    run_all(after)

    assert (parked.is_known, parked.last_tick) == (False, NOON)
    assert back.minutes() == [30]
