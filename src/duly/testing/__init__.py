"""For tests of code that uses Duly: time that moves only when told to, and a worker that waits.

Loaded when first used: pytest imports the plugin in this package at every start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.lazily import lookup

if TYPE_CHECKING:
    from duly.testing.clock import VirtualClock
    from duly.testing.crew import StillDue
    from duly.testing.enqueued import Enqueued
    from duly.testing.ran import Ran
    from duly.testing.working import Frozen, WorkingClock
    from duly.testing.world import virtual

_HOMES = {
    "Enqueued": "enqueued",
    "Frozen": "working",
    "Ran": "ran",
    "StillDue": "crew",
    "VirtualClock": "clock",
    "WorkingClock": "working",
    "virtual": "world",
}

__all__ = ["Enqueued", "Frozen", "Ran", "StillDue", "VirtualClock", "WorkingClock", "virtual"]

__getattr__ = lookup(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
