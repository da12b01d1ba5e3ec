"""grip, keep_grip, let_go: named locks whose token fences writes elsewhere."""

from __future__ import annotations

from datetime import timedelta

from duly.stores.contract import Grip
from duly.stores.drive import Statement, Steps
from duly.stores.sqlite.operations.texts import statements
from duly.stores.sqlite.operations.world import World
from duly.stores.tables.instants import span

SQL = statements("locks")


def grip(world: World, name: str, owner: str, ttl: timedelta) -> Steps[Grip | None]:
    """Take the lock if nobody holds it."""
    if (yield Statement(SQL["holder"], {"name": name} | world.moment.lease())):
        return None
    token = yield from world.draw()
    yield Statement(SQL["grip"], {"name": name, "owner": owner, "token": token} | _until(world, ttl))
    return Grip(name, token)


def keep_grip(world: World, held: Grip, ttl: timedelta) -> Steps[bool]:
    """Hold it longer; False when somebody else took it."""
    return bool((yield Statement(SQL["keep"], held._asdict() | _until(world, ttl))))


def let_go(held: Grip) -> Steps[bool]:
    """Give it back; False when somebody else took it."""
    return bool((yield Statement(SQL["let_go"], held._asdict())))


def _until(world: World, ttl: timedelta) -> dict[str, int | str]:
    return {"until": world.moment.boot + span(ttl), "boot_id": world.moment.boot_id}
