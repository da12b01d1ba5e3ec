"""What holds for every test."""

from __future__ import annotations

import sys
import tempfile
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadscope import LoadScopeScheduling

from duly.stores.sqlite.doorbell import sweep_neighbours

# Tests run in parallel on busy machines: how long one example takes says nothing about the code.
settings.register_profile("duly", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("duly")


SHARING: Final = ("tests/orders/", "tests/integrations/test_celery", "tests/integrations/test_import_celery")
"""Where a module shares something costly, such as a project with its worker, one for each kind of queue."""
KINDS: Final = ("celery", "postgres", "redis", "sqlite")


class ByCost(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships without types
    """Tests that share something costly run in one process, and first; all others wherever there is room."""

    def _split_scope(self, nodeid: str) -> str:
        path, _, name = nodeid.partition("::")
        if not path.startswith(SHARING):
            return nodeid
        parameters = name.partition("[")[2]
        return f"{path} {next((kind for kind in KINDS if kind in parameters), '')}"


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByCost:
    """Whichever distribution is asked for: ours knows what these tests cost."""
    return ByCost(config, log)


ELSEWHERE: Final = {
    "tests/stories/test_limits.py": ("memory", "postgres", "redis"),
    "tests/stories/test_worker.py": ("memory", "redis"),
}
"""Stories about bodies and processes, in which the store has little part: others are for the thorough."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make test` leaves to `make test-all`."""
    for item in items:
        path, _, name = item.nodeid.partition("::")
        if name.partition("[")[2].startswith(ELSEWHERE.get(path, ("?",))):
            item.add_marker(pytest.mark.thorough)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Workers that tests killed leave their doorbells behind, and nobody opens their files again."""
    if sys.platform != "win32" and not hasattr(session.config, "workerinput"):
        sweep_neighbours(tempfile.gettempdir(), limit=10_000)
