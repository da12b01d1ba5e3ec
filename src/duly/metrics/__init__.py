"""Numbers for those who watch: Prometheus by a port or a mounted page, OpenTelemetry by itself.

`serve` and `asgi` need the extra `metrics`. They are loaded when first used: a worker that nobody watches
needs nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.lazily import lookup

if TYPE_CHECKING:
    from duly.metrics.mounting import asgi
    from duly.metrics.serving import serve
    from duly.metrics.vitals import Health, Vitals

_HOMES = {"Health": "vitals", "Vitals": "vitals", "asgi": "mounting", "serve": "serving"}

__all__ = ["Health", "Vitals", "asgi", "serve"]

__getattr__ = lookup(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
