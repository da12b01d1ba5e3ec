"""A store on a file in memory, driven by one connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.sqlite_operations.driver import PlainStore

from duly.testing import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def store(clock: VirtualClock) -> Iterator[PlainStore]:
    made = PlainStore.create(":memory:", clock)
    yield made
    made.close()
