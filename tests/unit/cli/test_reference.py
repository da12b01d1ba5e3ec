"""docs/reference/cli.md says what the commands do; these tests keep the two in step."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.arrange import Command, Shop

from duly.cli.commands import COMMANDS
from duly.cli.exits import Exit

REFERENCE = (Path(__file__).parents[3] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_reference(name: str) -> None:
    assert f"`duly {name}" in REFERENCE


@pytest.mark.parametrize("code", Exit)
def test_every_exit_code_is_in_the_reference(code: Exit) -> None:
    assert f"\n| {code.value} | " in REFERENCE


def documented(command: str) -> set[str]:
    """Every word in code quotes of the command's row, and of the row of a job."""
    (row,) = (line for line in REFERENCE.splitlines() if line.startswith(f"| `{command}` | "))
    return {word for part in row.split("`")[1::2] for word in part.split()}


def row_words() -> set[str]:
    text = REFERENCE.partition("A row is `")[2].partition("`")[0]
    return set(text.split())


@pytest.mark.parametrize(
    "words", [["status"], ["jobs"], ["schedules"], ["doctor"], ["migrate"]], ids=lambda words: str(words[0])
)
def test_the_keys_of_a_document_are_in_the_reference(duly: Command, shop: Shop, words: list[str]) -> None:
    shop.work()

    document = duly(*words, "--json").document

    assert set(document) <= documented(words[0])


def test_the_keys_of_a_job_are_in_the_reference(duly: Command, shop: Shop) -> None:
    job = shop.task("mail").enqueue("ann")
    shop.work()

    (row,) = duly("jobs", "--task", "mail", "--json").document["jobs"]
    shown = duly("show", job.id, "--json").document

    assert set(row) == row_words()
    assert set(shown) - set(row) <= documented("show")
    assert set(shown["history"][0]) <= documented("show")
