"""The list of commands, help, and what a wrong word gets."""

from __future__ import annotations

import pytest
from tests.unit.cli.arrange import Command

from duly import __version__
from duly.cli import parser_of
from duly.cli.commands import COMMANDS


def test_without_words_every_command_is_listed(duly: Command) -> None:
    answer = duly()

    assert answer.code == 0
    assert all(f"  {name}" in answer.out for name in COMMANDS)


def test_the_version_is_told(duly: Command) -> None:
    answer = duly("--version")

    assert (answer.code, answer.out) == (0, f"duly {__version__}\n")


def test_an_unknown_command_suggests_the_nearest(duly: Command) -> None:
    answer = duly("statsu")

    assert answer.code == 2
    assert answer.err == "duly: there is no command 'statsu'. Did you mean 'status'?\n"


def test_a_word_unlike_any_command_points_to_the_list(duly: Command) -> None:
    answer = duly("xyzzy")

    assert answer.code == 2
    assert "`duly --help` lists them" in answer.err


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_the_variable_of_every_option(duly: Command, name: str) -> None:
    entry = COMMANDS[name]

    answer = duly(name, "--help")

    parser = parser_of(entry, entry.load())
    assert answer.code == 0
    assert parser.variables
    assert all(f"[{variable}]" in answer.out.replace("\n", " ") for variable in parser.variables)


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"worker", "dashboard"}))
def test_every_command_but_those_that_serve_answers_in_json(name: str) -> None:
    entry = COMMANDS[name]

    assert "DULY_JSON" in parser_of(entry, entry.load()).variables


def test_an_unknown_option_suggests_the_nearest(duly: Command) -> None:
    answer = duly("jobs", "--sate", "failed")

    assert answer.code == 2
    assert "there is no option --sate; did you mean --state?" in answer.err
    assert answer.err.count("\n") == 1


def test_one_word_too_many_is_named(duly: Command) -> None:
    answer = duly("show", "one", "two")

    assert answer.code == 2
    assert "'two' is one word too many" in answer.err
