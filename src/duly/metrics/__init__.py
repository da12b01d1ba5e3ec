"""Numbers for those who watch: Prometheus by a port or a mounted page, OpenTelemetry by itself.

`serve` and `asgi` need the extra `metrics`. They are loaded when first used: a worker that nobody watches
needs nothing of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly.metrics.mounting import asgi
    from duly.metrics.serving import serve
    from duly.metrics.vitals import Health, Vitals

_HOMES = {"Health": "vitals", "Vitals": "vitals", "asgi": "mounting", "serve": "serving"}

__all__ = ["Health", "Vitals", "asgi", "serve"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'duly.metrics' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"duly.metrics.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
