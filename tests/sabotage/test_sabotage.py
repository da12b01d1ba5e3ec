"""That the tests can fail: a handful of breakages here, all of them with `make sabotage`."""

from __future__ import annotations

from typing import Final

import pytest
from tests.sabotage.breakages import BREAKAGES, Breakage
from tests.sabotage.run import ENGINE, attempt, broken

QUICK: Final = [
    "sqlite: a settle of plain ends compares no epoch",
    "memory: generations begin anew",
    "a superseded run settles like any other",
    "deaths in isolation are not counted",
]


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda one: one.name)
def test_every_breakage_still_has_its_line(breakage: Breakage) -> None:
    text = (ENGINE / breakage.file).read_text()

    changed = broken(breakage, text)

    assert changed != text
    if breakage.file.endswith(".py"):
        compile(changed, breakage.file, "exec")
    assert breakage.tests


def test_there_are_twenty_and_each_has_its_name() -> None:
    assert len({breakage.name for breakage in BREAKAGES}) == len(BREAKAGES) >= 20


@pytest.mark.parametrize("name", QUICK)
def test_a_breakage_is_noticed(name: str) -> None:
    (breakage,) = [one for one in BREAKAGES if one.name == name]

    caught = attempt(breakage)

    assert caught.by is not None, caught.output
