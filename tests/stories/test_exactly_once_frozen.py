"""Processes that freeze or die around their effect: the program of tests/chaos/frozen.py in a few rounds."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.chaos.frozen import POINTS, Arena
from tests.stories.conftest import Place


@pytest.fixture
def arena(exact_place: Place, tmp_path: Path) -> Generator[Arena, None, None]:
    before = dict(os.environ)
    arena = Arena(exact_place.url, tmp_path, exact_place.namespace)
    yield arena
    arena.close()
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_frozen_around_its_effect_and_woken_after_its_lease_leaves_one_effect(
    arena: Arena, point: str
) -> None:
    tally = arena.batch(point, 1 if arena.is_sqlite and point != "before_effect" else 6)

    assert tally.faults == []
    if point == "before_effect" or not arena.is_sqlite:
        assert tally.outcomes["taken over"] > 0
