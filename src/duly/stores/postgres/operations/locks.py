"""grip, keep_grip, let_go: named locks whose token fences writes elsewhere."""

from __future__ import annotations

from datetime import timedelta

from duly.stores.contract import Grip
from duly.stores.drive import Statement, Steps
from duly.stores.postgres.operations.arrays import stored
from duly.stores.postgres.operations.texts import statements
from duly.stores.postgres.operations.world import World
from duly.stores.tables.instants import span

SQL = statements("locks")


def grip(world: World, name: str, owner: str, ttl: timedelta) -> Steps[Grip | None]:
    """Take the lock if nobody holds it."""
    held = {"name": stored(name), "boot": world.moment.boot}
    if (yield Statement(SQL["holder"], held)):
        return None
    wanted = {"owner": stored(owner), "until": world.moment.boot + span(ttl)}
    taken = yield Statement(SQL["grip"], held | wanted)
    return Grip(name, taken[0][0]) if taken else None


def keep_grip(world: World, held: Grip, ttl: timedelta) -> Steps[bool]:
    """Hold it longer; False when somebody else took it."""
    until = world.moment.boot + span(ttl)
    return bool((yield Statement(SQL["keep"], _named(held) | {"until": until})))


def let_go(held: Grip) -> Steps[bool]:
    """Give it back; False when somebody else took it."""
    return bool((yield Statement(SQL["let_go"], _named(held))))


def _named(held: Grip) -> dict[str, str | int]:
    return {"name": stored(held.name), "token": held.token}
