"""Every contract test takes `store` and `clock`, and runs once per store of the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.stores import STORES

from duly.stores.contract import Store
from duly.testing import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: VirtualClock) -> Iterator[Store]:
    made = STORES[request.param](tmp_path, clock)
    made.open()
    yield made
    made.close()
