"""What the tests of moving share: a mover that waits by moving the clock, and a look at everything."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from tests.contract.arrange import find

from duly.durations import duration
from duly.move import Moved, Mover
from duly.stores.house import Furniture, House, Stage
from duly.testing import VirtualClock

SOURCE: Final = "the old place"
TARGET: Final = "the new place"
MOVE: Final = "move-1"


def mover(source: House, target: House, clock: VirtualClock, *, wait: str = "60s") -> Mover:
    """Its pauses pass at once, on the clock of the test."""

    def pause(seconds: float) -> None:
        clock.advance(timedelta(seconds=seconds))

    return Mover(
        source=source,
        target=target,
        source_name=SOURCE,
        target_name=TARGET,
        wait=duration(wait),
        tell=lambda _: None,
        clock=clock,
        pause=pause,
    )


def move(source: House, target: House, clock: VirtualClock) -> Moved:
    return mover(source, target, clock).run()


def seal(store: House) -> None:
    store.run(store.seal(MOVE, TARGET))


def shut(store: House) -> None:
    """Seal and close a store in which nothing runs."""
    seal(store)
    close(store)


def close(store: House) -> None:
    """Close a sealed store in which nothing runs."""
    obstacles = store.run(store.shut(MOVE))
    assert not any(obstacles)


def unpack_all(source: House, target: House) -> None:
    """Carry every job, without the rest."""
    belongings = source.run(source.pack(0, 10_000))
    target.run(target.unpack(MOVE, 0, belongings))


def stage(store: House) -> Stage | None:
    notice = store.run(store.notice())
    return None if notice is None else notice.stage


def everything(store: House) -> dict[str, Any]:
    """All there is to see in a store."""
    return {
        "jobs": find(store, limit=10_000),
        "census": store.run(store.census()),
        "furniture": sorted_furniture(store.run(store.furniture())),
    }


def sorted_furniture(furniture: Furniture) -> dict[str, Any]:
    """Without the order that stores are free to choose."""
    return {
        "last": furniture.last_number,
        "tallies": dict(furniture.tallies),
        "windows": sorted(furniture.windows),
        "markers": sorted(furniture.markers),
        "switches": list(furniture.switches),
        "locks": sorted(furniture.locks),
        "notes": sorted(furniture.notes),
        "starts": sorted(furniture.starts),
        "delivered": sorted(furniture.delivered),
        "pages": list(furniture.pages),
    }
