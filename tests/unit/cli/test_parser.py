"""Options: on the line, else from the environment, else their default."""

from __future__ import annotations

import pytest

from duly.cli.parser import Names, Parser, Raise, at_least_one, names, size


def parser() -> Parser:
    made = Parser(prog="duly test", description="")
    made.option("-n", "--limit", type=at_least_one, default=20, help="a number")
    made.option("--queues", action=Names, type=names, help="names")
    made.option("--log-format", choices=("text", "json"), help="a choice")
    made.option("--burst", action="store_true", default=False, help="a switch")
    made.option("-v", "--verbose", action=Raise, default=0, help="a count")
    made.option("--url", is_setting=True, help="read by the application")
    return made


def test_the_default_stands_where_nobody_says_otherwise() -> None:
    args = parser().read([], {})

    assert (args.limit, args.queues, args.burst, args.verbose) == (20, None, False, 0)


def test_a_variable_stands_in_for_an_option() -> None:
    args = parser().read(
        [], {"DULY_LIMIT": "5", "DULY_QUEUES": "a, b", "DULY_BURST": "yes", "DULY_LOG_FORMAT": "json"}
    )

    assert (args.limit, args.queues, args.burst, args.log_format) == (5, ["a", "b"], True, "json")


def test_the_line_outranks_the_variable_and_does_not_add_to_it() -> None:
    args = parser().read(
        ["-n", "7", "--queues", "c", "--queues", "d,e"], {"DULY_LIMIT": "5", "DULY_QUEUES": "a"}
    )

    assert (args.limit, args.queues) == (7, ["c", "d", "e"])


def test_an_empty_variable_says_nothing() -> None:
    assert parser().read([], {"DULY_LIMIT": ""}).limit == 20


def test_a_setting_is_left_to_the_application() -> None:
    assert parser().read([], {"DULY_URL": "memory://"}).url is None


def test_a_repeated_letter_counts() -> None:
    assert parser().read(["-vv"], {}).verbose == 2
    assert parser().read([], {"DULY_VERBOSE": "2"}).verbose == 2
    assert parser().read([], {"DULY_VERBOSE": "yes"}).verbose == 1


@pytest.mark.parametrize(
    ("variable", "value", "complaint"),
    [
        ("DULY_LIMIT", "many", "'many' is not a whole number of at least 1"),
        ("DULY_LIMIT", "0", "'0' is not a whole number of at least 1"),
        ("DULY_BURST", "perhaps", "yes or no"),
        ("DULY_LOG_FORMAT", "xml", "one of text, json"),
        ("DULY_QUEUES", ",", "it takes a name"),
    ],
)
def test_a_bad_variable_is_named_with_its_value(
    capsys: pytest.CaptureFixture[str], variable: str, value: str, complaint: str
) -> None:
    with pytest.raises(SystemExit) as leaving:
        parser().read([], {variable: value})

    assert leaving.value.code == 2
    told = capsys.readouterr().err
    assert f"{variable}={value!r}" in told
    assert complaint in told


@pytest.mark.parametrize(
    ("text", "expected"),
    [("300MB", 300 * 2**20), ("1.5 GB", 3 * 2**29), ("64k", 65536), ("1000", 1000), ("7b", 7)],
)
def test_sizes_are_read_as_people_write_them(text: str, expected: int) -> None:
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "nan", "inf", "3 parsecs", "1e999"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Exception, match="write it like 300MB"):
        size(text)
