"""The memory store is the specification: SQLite must not be told apart from it, step by step."""

from __future__ import annotations

import pytest
from tests.unit.sqlite_operations.driver import PlainStore
from tests.unit.sqlite_operations.walk import Walk

from duly.stores.memory import MemoryStore
from duly.testing import VirtualClock


@pytest.mark.parametrize("seed", range(30))
def test_a_random_walk_leaves_both_stores_with_the_same_answers_and_jobs(seed: int) -> None:
    clock = VirtualClock()
    sqlite = PlainStore.create(":memory:", clock)
    walk = Walk(seed, MemoryStore(clock=clock), sqlite, clock)

    for _ in range(120):
        walk.step()

    sqlite.close()
