"""What holds for every test."""

from __future__ import annotations

import sys
import tempfile

import pytest
from hypothesis import HealthCheck, settings

from duly.stores.sqlite.doorbell import sweep_neighbours

# Tests run in parallel on busy machines: how long one example takes says nothing about the code.
settings.register_profile("duly", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("duly")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long rows of tests begin first, so that nobody waits for the last of them alone.

    Tests that share something costly say so by `xdist_group`, and then run in one process.
    """
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Workers that tests killed leave their doorbells behind, and nobody opens their files again."""
    if sys.platform != "win32" and not hasattr(session.config, "workerinput"):
        sweep_neighbours(tempfile.gettempdir(), limit=10_000)
