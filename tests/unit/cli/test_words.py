"""How values read: nothing a stranger wrote reaches the terminal as it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duly.cli.tables import table, wide
from duly.cli.words import counted, last_line, one_line, relative, shown, span
from duly.urls import masked

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("two\nlines", "two\\nlines"),
        ("\u202eright to left", "\\u202eright to left"),
        ("\x9b31m", "\\x9b31m"),
        ("\ud800", "\\ud800"),
        ("γράμμα", "γράμμα"),
    ],
)
def test_control_characters_are_made_visible(text: str, expected: str) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://ann:s3cret@db/shop", "postgresql://ann:***@db/shop"),
        ("redis://:s3cret@cache:6379/0", "redis://:***@cache:6379/0"),
        ("postgresql://ann:p@ss@db/shop", "postgresql://ann:***@db/shop"),
        ("no store at 'redis://a:b@c' or d", "no store at 'redis://a:***@c' or d"),
        (
            "postgresql://db/shop?user=ann&password=s3cret&x=1",
            "postgresql://db/shop?user=ann&password=***&x=1",
        ),
        ("https://example.org:443/@ann", "https://example.org:443/@ann"),
        ("sqlite:///duly.db", "sqlite:///duly.db"),
    ],
)
def test_passwords_in_urls_are_masked_and_nothing_else(text: str, expected: str) -> None:
    assert masked(text) == expected


def test_a_message_of_several_lines_becomes_one() -> None:
    assert one_line("first\n    second\n") == "first second"


def test_a_traceback_comes_down_to_its_last_line() -> None:
    assert last_line("Traceback:\n  File\nValueError: no\n") == "ValueError: no"
    assert last_line(None) == ""


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.012, "12ms"), (3, "3.0s"), (59.99, "0m 59s"), (125, "2m 5s"), (7260, "2h 1m"), (90_000, "1d 1h")],
)
def test_spans_are_told_in_the_units_that_matter(seconds: float, expected: str) -> None:
    assert span(timedelta(seconds=seconds)) == expected


def test_moments_are_told_from_now() -> None:
    assert relative(NOON + timedelta(seconds=5), NOON) == "in 5.0s"
    assert relative(NOON - timedelta(seconds=5), NOON) == "5.0s ago"
    assert relative(None, NOON) == ""


def test_numbers_take_their_plural() -> None:
    assert (counted(1, "job"), counted(1200, "job")) == ("1 job", "1,200 jobs")


def test_columns_are_aligned_also_with_wide_letters() -> None:
    lines = table(["key", "state"], [["日本", "done"], ["abc", "failed"]]).splitlines()

    assert lines[0].startswith("KEY ")
    assert wide("日本") == 4
    assert lines[1:] == ["日本  done", "abc   failed"]


def test_a_table_that_is_not_on_a_terminal_has_no_colour() -> None:
    assert "\x1b" not in table(["state"], [["failed"]])
