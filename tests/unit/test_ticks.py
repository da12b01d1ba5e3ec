"""Timetables keep their grid, and a plan never repeats or invents a tick."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.errors import DefinitionError
from duly.ticks import Cron, Every, Missed, Plan, Timetable, interval_of, next_tick, plan_ticks, ticks_between

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca"]


@pytest.mark.parametrize(
    ("definition", "culprit"),
    [
        ({"interval": 0}, "every=0"),
        ({"interval": "-5s"}, "every='-5s'"),
        ({"interval": float("nan")}, "every=nan"),
        ({"interval": "5m", "anchor": datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001
        ({"interval": "5m", "mode": "often"}, "mode='often'"),
    ],
)
def test_an_interval_that_cannot_work_is_refused(definition: dict[str, Any], culprit: str) -> None:
    with pytest.raises(DefinitionError, match=culprit):
        Every(**definition)


def test_an_interval_keeps_to_its_grid_across_a_change_of_clocks() -> None:
    anchor = datetime(2026, 10, 24, 12, tzinfo=ZoneInfo("Europe/Berlin"))

    tick = next_tick(Every("12h", anchor), anchor)

    assert tick == datetime(2026, 10, 24, 22, tzinfo=UTC)


def test_a_delay_counts_from_the_moment_it_is_given() -> None:
    assert next_tick(Every("5m", mode="delay"), NOON + timedelta(seconds=7)) == NOON + timedelta(seconds=307)


def test_the_interval_is_the_gap_between_the_next_two_ticks() -> None:
    assert interval_of(Cron("0 9-17 * * *"), NOON) == timedelta(hours=1)
    assert interval_of(Cron("0 9-17 * * *"), NOON + timedelta(hours=4)) == timedelta(hours=16)
    assert interval_of(Every("5m"), NOON) == timedelta(minutes=5)


@pytest.mark.parametrize(
    "timetable", [Cron("0 0 1 1 *", "Asia/Tokyo"), Every("100d"), Every("9d", mode="delay")]
)
def test_a_timetable_ends_with_the_calendar(timetable: Timetable) -> None:
    assert next_tick(timetable, datetime(9999, 12, 31, 12, tzinfo=UTC)) is None


lines = st.sampled_from(
    [
        "*/5 * * * *",
        "30 2 * * *",
        "0 9-17 * * 1-5",
        "7,9 */3 1 * *",
        "0 0 29 2 *",
        "*/30 1,2 * * 0",
        "@weekly",
    ]
)
instants = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


timetables = st.one_of(
    st.builds(Cron, lines, st.sampled_from(ZONES)),
    st.builds(Cron, st.just("*/7 * * * * *"), st.sampled_from(ZONES)),
    st.builds(Every, st.timedeltas(timedelta(seconds=10), timedelta(days=2)), st.none() | instants),
)


@given(
    timetables,
    instants,
    st.timedeltas(timedelta(days=-1), timedelta(hours=30)),
    st.sampled_from(["last", "skip", "all"]),
    st.none() | st.timedeltas(timedelta(0), timedelta(hours=3)),
    st.integers(1, 20),
)
@settings(max_examples=150)
def test_a_plan_is_what_its_rule_says_of_all_the_ticks(
    timetable: Timetable, last: datetime, gone: timedelta, missed: Missed, grace: timedelta | None, cap: int
) -> None:
    now = last + gone
    ticks = ticks_between(timetable, last, now, 200_000)
    allowed = min(MINUTE, interval_of(timetable, now) / 2) if grace is None else grace
    on_time = [tick for tick in ticks if now - tick <= allowed][-cap:]
    expected = {"skip": on_time, "last": on_time or ticks[-1:], "all": ticks[-cap:]}[missed]

    plan = plan_ticks(timetable, last, now, missed=missed, grace=grace, max_catch_up=cap)

    assert list(plan.due) == expected
    assert plan.dropped == len(ticks) - len(expected)
    assert plan.last_tick == (ticks[-1] if ticks else last)
    assert plan.next_at == next_tick(timetable, plan.last_tick)


@given(timetables, instants, st.lists(st.timedeltas(timedelta(hours=-2), timedelta(hours=5)), max_size=8))
def test_however_the_clock_moves_no_instant_is_planned_twice(
    timetable: Timetable, now: datetime, steps: list[timedelta]
) -> None:
    last, planned = now, list[datetime]()

    for step in steps:
        now += step
        plan = plan_ticks(timetable, last, now, missed="all", max_catch_up=10)
        assert all(last < tick <= now for tick in plan.due)
        planned += plan.due
        last = plan.last_tick

    assert planned == sorted(set(planned))


def test_years_of_missed_seconds_are_counted_without_visiting_them() -> None:
    now = NOON + timedelta(milliseconds=100)
    began = now - timedelta(days=1500)

    plan = plan_ticks(Cron("* * * * * *", "Europe/Berlin"), began, now, missed="all", max_catch_up=3)

    assert plan.due == (NOON - timedelta(seconds=2), NOON - timedelta(seconds=1), NOON)
    assert plan.dropped == 1500 * 86_400 - 3


def test_a_schedule_asleep_since_for_ever_is_bounded_too() -> None:
    plan = plan_ticks(Cron("* * * * *"), datetime(1, 1, 2, tzinfo=UTC), NOON, missed="last")

    assert plan.due == (NOON,)
    assert plan.dropped < 3661 * 1440


@pytest.mark.parametrize(("late", "runs"), [(0, True), (60, True), (60.001, False)])
def test_a_skipping_schedule_runs_a_tick_only_within_grace(late: float, runs: bool) -> None:
    hourly = Cron("@hourly")

    plan = plan_ticks(hourly, NOON - MINUTE, NOON + timedelta(seconds=late), missed="skip")

    assert plan == Plan(
        due=(NOON,) if runs else (),
        dropped=0 if runs else 1,
        last_tick=NOON,
        next_at=NOON + timedelta(hours=1),
    )


def test_a_short_interval_halves_the_grace() -> None:
    often = Every("10s")

    late = plan_ticks(often, NOON - timedelta(seconds=1), NOON + timedelta(seconds=5.1), missed="skip")
    timely = plan_ticks(often, NOON - timedelta(seconds=1), NOON + timedelta(seconds=5), missed="skip")

    assert (late.due, timely.due) == ((), (NOON,))


def test_a_tick_on_time_makes_the_missed_ones_before_it_drop() -> None:
    plan = plan_ticks(Cron("@hourly"), NOON - timedelta(hours=5), NOON + timedelta(seconds=1), missed="last")

    assert (plan.due, plan.dropped) == ((NOON,), 4)


def test_only_ticks_from_start_to_end_are_planned() -> None:
    hourly, start, end = Cron("@hourly"), NOON - timedelta(hours=2), NOON - timedelta(hours=1)

    plan = plan_ticks(hourly, NOON - timedelta(days=1), NOON, missed="all", start=start, end=end)

    assert plan == Plan(due=(start, end), dropped=0, last_tick=end, next_at=None)


def test_before_its_start_a_schedule_waits_for_it() -> None:
    start = NOON + timedelta(days=2)

    plan = plan_ticks(Cron("@hourly"), NOON - timedelta(hours=9), NOON, start=start)

    assert plan == Plan(due=(), dropped=0, last_tick=NOON - timedelta(hours=9), next_at=start)


@pytest.mark.parametrize(("missed", "due"), [("last", 1), ("all", 1), ("skip", 0)])
def test_a_delay_that_lasted_longer_is_one_tick_at_most(missed: Missed, due: int) -> None:
    last = NOON - timedelta(minutes=59)

    plan = plan_ticks(Every("20m", mode="delay"), last, NOON, missed=missed)

    assert len(plan.due) == due
    assert plan.last_tick == last + timedelta(minutes=40)
