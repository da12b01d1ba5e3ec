"""Cron lines agree with brute force in every zone, on the days on which clocks change above all."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from duly.errors import DefinitionError
from duly.ticks import Cron, next_tick, ticks_between

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
# A midnight that does not exist, one that comes twice with the day before, a day that was left out.
ODD_DAYS = [
    ("America/Sao_Paulo", datetime(2017, 10, 14, tzinfo=UTC)),
    ("America/St_Johns", datetime(2010, 11, 6, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 29, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 7, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 10, 31, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 3, 28, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 10, 24, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 3, tzinfo=UTC)),
    ("Africa/Casablanca", datetime(2026, 2, 14, tzinfo=UTC)),
    ("Africa/Casablanca", datetime(2026, 3, 21, tzinfo=UTC)),
]


def at(zone: str, written: str) -> datetime:
    return datetime.fromisoformat(written).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def local_ticks(line: str, zone: str, after: str, count: int) -> list[str]:
    tick: datetime | None = at(zone, after)
    shown: list[str] = []
    for _ in range(count):
        assert tick is not None
        tick = next_tick(Cron(line, zone), tick)
        assert tick is not None
        assert tick.tzinfo is UTC
        shown.append(tick.astimezone(ZoneInfo(zone)).strftime("%d %H:%M%z"))
    return shown


@pytest.mark.parametrize(
    ("line", "zone", "after", "expected"),
    [
        ("30 2 * * *", "America/New_York", "2026-03-07T12:00", ["08 03:00-0400", "09 02:30-0400"]),
        ("0,30 2 * * *", "America/New_York", "2026-03-07T12:00", ["08 03:00-0400", "09 02:00-0400"]),
        ("0 2,3 * * *", "America/New_York", "2026-03-07T12:00", ["08 03:00-0400", "09 02:00-0400"]),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["29 03:00+0200", "30 02:30+0200"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", ["04 02:30+1100", "05 02:15+1100"]),
        ("30 2 * * *", "Africa/Casablanca", "2026-03-21T12:00", ["22 03:00+0100", "23 02:30+0100"]),
        ("30 0 * * *", "America/Sao_Paulo", "2017-10-14T12:00", ["15 01:00-0200", "16 00:30-0200"]),
        ("0 9 * * *", "Pacific/Apia", "2011-12-29T12:00", ["31 00:00+1400", "31 09:00+1400"]),
    ],
)
def test_a_fixed_time_in_a_gap_fires_once_right_after_it(
    line: str, zone: str, after: str, expected: list[str]
) -> None:
    assert local_ticks(line, zone, after, 2) == expected


@pytest.mark.parametrize(
    ("line", "zone", "after", "expected"),
    [
        ("30 1 * * *", "America/New_York", "2026-10-31T12:00", ["01 01:30-0400", "02 01:30-0500"]),
        ("0 30 1 * * *", "America/New_York", "2026-10-31T12:00", ["01 01:30-0400", "02 01:30-0500"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["25 02:30+0200", "26 02:30+0100"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00", ["05 01:45+1100", "06 01:45+1030"]),
        ("30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00", ["15 02:30+0100", "16 02:30+0000"]),
        ("30 23 * * *", "America/St_Johns", "2010-11-06T12:00", ["06 23:30-0230", "07 23:30-0330"]),
    ],
)
def test_a_fixed_time_in_a_repeated_hour_fires_once(
    line: str, zone: str, after: str, expected: list[str]
) -> None:
    assert local_ticks(line, zone, after, 2) == expected


def test_a_fixed_time_does_not_fire_when_asked_from_within_the_repeated_hour() -> None:
    second_pass = datetime(2026, 11, 1, 1, 15, fold=1, tzinfo=ZoneInfo("America/New_York"))

    tick = next_tick(Cron("30 1 * * *", "America/New_York"), second_pass)

    assert tick == at("America/New_York", "2026-11-02T01:30")


def test_every_half_hour_fires_in_both_of_the_repeated_hours() -> None:
    assert local_ticks("*/30 * * * *", "America/New_York", "2026-11-01T00:45", 5) == [
        "01 01:00-0400",
        "01 01:30-0400",
        "01 01:00-0500",
        "01 01:30-0500",
        "01 02:00-0500",
    ]


def test_every_half_hour_has_nothing_to_catch_up_after_a_gap() -> None:
    assert local_ticks("*/30 * * * *", "Europe/Berlin", "2026-03-29T01:15", 3) == [
        "29 01:30+0100",
        "29 03:00+0200",
        "29 03:30+0200",
    ]


@pytest.mark.parametrize(
    ("alias", "line"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@Annually", "0 0 1 1 *"),
    ],
)
def test_an_alias_means_its_line(alias: str, line: str) -> None:
    assert ticks_between(Cron(alias), NOON, NOON + timedelta(days=900), 5) == ticks_between(
        Cron(line), NOON, NOON + timedelta(days=900), 5
    )


def test_six_fields_put_seconds_first() -> None:
    assert ticks_between(Cron("*/20 0 12 * * *"), NOON, NOON + MINUTE, 9) == [
        NOON + timedelta(seconds=20),
        NOON + timedelta(seconds=40),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "0 0 31 2 *",
        "0 0 30 2 */2",
        "0 0 */31 2 MON#5",
        "61 * * * *",
        "* * * *",
        "* * * * * * *",
        "@reboot",
        "* * * * MON#1/2",
        "*/0 * * * *",
        "9" * 5000 + " * * * *",
        "",
        "hourly",
        17,
        None,
    ],
)
def test_a_line_that_cannot_fire_is_refused_where_it_is_written(line: Any) -> None:
    with pytest.raises(DefinitionError) as refusal:
        Cron(line)

    assert str(line)[:50] in str(refusal.value)


@pytest.mark.parametrize("zone", ["Europe/Pariss", "", "..", "America", "/etc/passwd", "x\0", "Mars", 3])
def test_an_unknown_zone_is_refused_where_it_is_written(zone: Any) -> None:
    with pytest.raises(DefinitionError) as refusal:
        Cron("* * * * *", zone)

    assert repr(zone) in str(refusal.value)


def test_an_unknown_zone_names_the_nearest_known_one() -> None:
    with pytest.raises(DefinitionError, match=r"Did you mean 'Europe/Paris'\?"):
        Cron("* * * * *", "Europe/Pariss")


def test_a_leap_day_on_a_sunday_is_found_decades_ahead() -> None:
    assert next_tick(Cron("0 0 29 2 */7"), datetime(2088, 3, 1, tzinfo=UTC)) == datetime(
        2128, 2, 29, tzinfo=UTC
    )


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    numbers = st.lists(st.integers(low, high), min_size=1, max_size=4, unique=True)
    return numbers.map(lambda some: ",".join(map(str, some)))


def stepped(low: int, high: int) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), st.sampled_from([2, 7, 15, 30]).map("*/{}".format), fields(low, high))


times = st.tuples(stepped(0, 59), stepped(0, 23)).map(" ".join)
days = st.tuples(
    st.one_of(st.just("*"), fields(1, 28)),
    st.one_of(st.just("*"), fields(1, 12)),
    st.one_of(st.just("*"), fields(0, 7)),
).map(" ".join)
lines = st.tuples(times, days).map(" ".join)
instants = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(lines, instants)
def test_in_utc_two_other_readers_of_cron_lines_agree(line: str, after: datetime) -> None:
    tick = next_tick(Cron(line), after)

    assert tick == next(CronSim(line, after))
    assert tick == croniter(line, after).get_next(datetime)


def expand(field: str, size: int) -> set[int]:
    if field.startswith("*"):
        return set(range(0, size, int(field[2:] or 1)))
    return {int(number) for number in field.split(",")}


def by_brute_force(line: str, zone: str, after: datetime, until: datetime) -> list[datetime]:
    """Every tick by the two rules of the module, found by looking at each minute."""
    minute, hour = line.split()
    wanted_minutes, wanted_hours = expand(minute, 60), expand(hour, 24)
    where = ZoneInfo(zone)
    looked_at = [after + MINUTE * n for n in range(1, int((until - after) / MINUTE) + 1)]
    if "*" in line:
        walls = ((tick, tick.astimezone(where)) for tick in looked_at)
        return [tick for tick, wall in walls if wall.minute in wanted_minutes and wall.hour in wanted_hours]
    real = {tick.astimezone(where).replace(tzinfo=None, fold=0) for tick in looked_at}
    found: set[datetime] = set()
    for day in {(after + timedelta(hours=12 * n)).astimezone(where).date() for n in range(-2, 12)} | skipped(
        zone
    ):
        for wall in (datetime.combine(day, time(h, m)) for h in wanted_hours for m in wanted_minutes):
            while wall not in real and min(real) < wall < max(real):
                wall += MINUTE  # noqa: PLW2901  walk out of the gap
            found.add(wall.replace(tzinfo=where).astimezone(UTC))
    return sorted(tick for tick in found if after < tick <= until)


def skipped(zone: str) -> set[date]:
    return {date(2011, 12, 30)} if zone == "Pacific/Apia" else set()


@given(times, st.sampled_from(ODD_DAYS))
@settings(max_examples=60)
def test_on_odd_days_the_walk_agrees_with_brute_force(line: str, odd: tuple[str, datetime]) -> None:
    zone, after = odd
    until = after + timedelta(days=3)

    ticks = ticks_between(Cron(f"{line} * * *", zone), after, until, 5000)

    assert ticks == by_brute_force(line, zone, after, until)


@given(times, st.sampled_from(ODD_DAYS), st.integers(0, 3 * 24 * 60 * 60))
def test_the_next_tick_does_not_depend_on_where_the_walk_starts(
    line: str, odd: tuple[str, datetime], seconds: int
) -> None:
    zone, start = odd
    after = start + timedelta(seconds=seconds)
    timetable = Cron(f"{line} * * *", zone)

    tick = next_tick(timetable, after)

    walked = [
        each for each in ticks_between(timetable, start, start + timedelta(days=5), 7300) if each > after
    ]
    assert tick == walked[0]
