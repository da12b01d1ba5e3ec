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


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Workers that tests killed leave their doorbells behind, and nobody opens their files again."""
    if sys.platform != "win32" and not hasattr(session.config, "workerinput"):
        sweep_neighbours(tempfile.gettempdir(), limit=10_000)
