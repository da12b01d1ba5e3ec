"""The diagram of states is the table in lifecycle.py, and every event on it is explained."""

from __future__ import annotations

import re

from tests.docs.pages import named_in_tables, section

from duly.job import State
from duly.lifecycle import MOVES

PAGE = "reference/jobs.md"


def drawn_moves() -> set[tuple[str, str, str]]:
    lines = re.findall(r"^    (\w+) --> (\w+): (\w+)$", section(PAGE, "States"), re.MULTILINE)
    return {(before, event, after) for before, after, event in lines}


def test_the_diagram_draws_every_move_and_no_other() -> None:
    assert drawn_moves() == {(str(before), event, str(after)) for (before, event), after in MOVES.items()}


def test_every_state_and_every_event_is_explained() -> None:
    assert named_in_tables(section(PAGE, "States")) == {*State, *(event for _, event in MOVES)}
