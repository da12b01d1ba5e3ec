"""The stores that must keep the contract: one line each, and every test in this folder runs on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from duly.stores.contract import Store
from duly.stores.memory import MemoryStore
from duly.testing import VirtualClock

Maker = Callable[[Path, VirtualClock], Store]


def _memory(_folder: Path, clock: VirtualClock) -> Store:
    return MemoryStore(clock=clock)


STORES: Final[dict[str, Maker]] = {
    "memory": _memory,
}
