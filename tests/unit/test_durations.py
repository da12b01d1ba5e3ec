"""Durations are read exactly or refused where they are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.durations import LONGEST, describe, duration, moment
from duly.errors import DefinitionError

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (90, timedelta(seconds=90)),
        (0.25, timedelta(milliseconds=250)),
        (timedelta(days=3), timedelta(days=3)),
        ("2m 30s", timedelta(minutes=2, seconds=30)),
        ("2m30s", timedelta(minutes=2, seconds=30)),
        (" 1h  5m ", timedelta(hours=1, minutes=5)),
        ("1.5h", timedelta(minutes=90)),
        ("500ms", timedelta(milliseconds=500)),
        ("7d", timedelta(days=7)),
        ("1w", timedelta(days=7)),
        ("90 s", timedelta(seconds=90)),
        ("0s", timedelta(0)),
        ("0.1ms", timedelta(microseconds=100)),
        ("100d", timedelta(days=100)),
    ],
)
def test_a_duration_means_what_it_says(written: Any, meant: timedelta) -> None:
    assert duration(written) == meant


@pytest.mark.parametrize(
    "nonsense",
    [
        -1,
        -0.001,
        timedelta(microseconds=-1),
        float("nan"),
        float("inf"),
        float("-inf"),
        1e20,
        10**400,
        timedelta.max,
        True,
        None,
        b"1s",
        [1],
        "",
        "  ",
        "soon",
        "-5s",
        "1e3s",
        "5 parsecs",
        "5M",
        "1h 1h",
        "1h and 5m",
        "٣s",
        "101w 99999d",
        "9" * 90 + "s",
        "1s" * 1000,
    ],
)
def test_what_is_no_duration_is_refused_with_its_value(nonsense: Any) -> None:
    shown = nonsense if isinstance(nonsense, str) else repr(nonsense)

    with pytest.raises(DefinitionError) as refusal:
        duration(nonsense, what="lease")

    assert "lease=" in str(refusal.value)
    assert shown[:50] in str(refusal.value)


def test_a_number_too_long_to_print_is_refused_all_the_same() -> None:
    with pytest.raises(DefinitionError, match="thousands of digits is out of range"):
        duration(10**5000)


def test_a_bare_number_in_quotes_is_refused_with_both_remedies() -> None:
    with pytest.raises(DefinitionError, match=r'"30s", or give the number 30 without quotes'):
        duration("30")


def test_zero_is_refused_where_it_makes_no_sense() -> None:
    with pytest.raises(DefinitionError, match=r"every='0s' must be longer than zero"):
        duration("0s", what="every", allow_zero=False)


def test_a_century_is_the_longest_duration() -> None:
    assert duration(LONGEST) == LONGEST
    with pytest.raises(DefinitionError, match="longer than 100 years"):
        duration(LONGEST + timedelta(microseconds=1))


@pytest.mark.parametrize(
    ("span", "spelling"),
    [
        (timedelta(minutes=2, seconds=30), "2m 30s"),
        (timedelta(0), "0s"),
        (timedelta(days=8, hours=1), "8d 1h"),
        (timedelta(milliseconds=1500), "1s 500ms"),
        (timedelta(microseconds=250), "0.25ms"),
        (timedelta(seconds=-90), "-1m 30s"),
    ],
)
def test_a_span_is_described_in_the_units_of_people(span: timedelta, spelling: str) -> None:
    assert describe(span) == spelling


@given(st.timedeltas(min_value=timedelta(0), max_value=LONGEST))
def test_a_description_reads_back_as_the_same_span(span: timedelta) -> None:
    assert duration(describe(span)) == span


@given(st.one_of(st.text(), st.floats(), st.integers()))
def test_any_input_is_either_a_sane_span_or_a_definition_error(written: Any) -> None:
    try:
        span = duration(written)
    except DefinitionError:
        return

    assert timedelta(0) <= span <= LONGEST


def test_a_moment_is_an_aware_datetime_or_counted_from_now() -> None:
    paris = datetime(2026, 12, 24, 18, tzinfo=ZoneInfo("Europe/Paris"))

    assert moment(paris, NOON) is paris
    assert moment("10s", NOON) == NOON + timedelta(seconds=10)
    assert moment(0, NOON) == NOON


def test_a_naive_moment_is_refused_with_the_remedy() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001  the point of the test

    with pytest.raises(DefinitionError, match=r"run_after=datetime.*no time zone.*ZoneInfo"):
        moment(naive, NOON)


@pytest.mark.parametrize(
    "far",
    [
        datetime(1969, 12, 31, tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=12))),
    ],
)
def test_a_moment_outside_the_calendar_is_refused(far: datetime) -> None:
    with pytest.raises(DefinitionError, match="outside the years 1970 to 9998"):
        moment(far, NOON)
