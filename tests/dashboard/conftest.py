"""A shop on a clock of its own, and those who visit its dashboard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from tests.dashboard.arrange import OPERATOR, VIEWER, Shop

from duly import Duly
from duly.testing import virtual


@pytest.fixture
def shop() -> Iterator[Shop]:
    app = Duly("memory://")
    with virtual(app) as clock:
        yield Shop(app, clock)


@pytest.fixture
def operator(shop: Shop) -> TestClient:
    return shop.visit(OPERATOR)


@pytest.fixture
def viewer(shop: Shop) -> TestClient:
    return shop.visit(VIEWER)
