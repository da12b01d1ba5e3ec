"""What the integrations offer has a docstring and stands on a page."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs" / "how-to"
OFFERED = [
    ("duly.integrations.asgi", "fastapi.md", name)
    for name in ("Companion", "Health", "get_duly", "get_worker", "health", "lifespan", "stop_server")
] + [("duly.integrations.celery", "celery.md", name) for name in ("CeleryBackend", "OnCelery", "Sent")]


@pytest.mark.parametrize(("module", "page", "name"), OFFERED)
def test_every_name_of_an_integration_is_documented(module: str, page: str, name: str) -> None:
    if name == "CeleryBackend":  # needs settings of Django to be loaded
        source = Path(importlib.import_module(module).__file__ or "").with_name("backend.py").read_text()
        assert 'class CeleryBackend(TakesOurWords):\n    """' in source
    else:
        assert inspect.getdoc(getattr(importlib.import_module(module), name))
    assert f"`{name}" in (DOCS / page).read_text() or f".{name}" in (DOCS / page).read_text()
